# SPDX-License-Identifier: Apache-2.0
"""Families of ops whose kernels differ little between processors: one module has the rows of all libraries."""
