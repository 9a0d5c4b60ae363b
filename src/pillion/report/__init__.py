# SPDX-License-Identifier: Apache-2.0
"""A program as one page to look at, and as plain facts: `collect` gathers, `page` draws."""
