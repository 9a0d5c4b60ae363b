# SPDX-License-Identifier: Apache-2.0
"""Tiling: chooses which parts of a graph run as stripes, a few rows at a time, so that no whole tensor lies
between their ops."""
