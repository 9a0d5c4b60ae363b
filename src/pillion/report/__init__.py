# SPDX-License-Identifier: Apache-2.0
"""A report on a program: `collect` gathers plain facts, `page` renders them as HTML."""
