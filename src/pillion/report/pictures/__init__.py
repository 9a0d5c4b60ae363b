# SPDX-License-Identifier: Apache-2.0
"""The pictures of a report, as SVG that stands in a page: static, printable, and legible without a script."""
