# SPDX-License-Identifier: Apache-2.0
"""Which parts of a graph run a few rows at a time, so that no whole tensor need lie between their ops."""
