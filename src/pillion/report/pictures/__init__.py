# SPDX-License-Identifier: Apache-2.0
"""The pictures of a report as inline SVG: static, printable, readable without scripts."""
