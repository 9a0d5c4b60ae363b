# SPDX-License-Identifier: Apache-2.0
"""Tiling: chooses the parts of a graph that run as stripes, a few rows at a time; no whole tensor lies between their
ops."""
