# SPDX-License-Identifier: Apache-2.0
"""Kernels of op families that differ little between processors: each module lists the kernels of all libraries."""
