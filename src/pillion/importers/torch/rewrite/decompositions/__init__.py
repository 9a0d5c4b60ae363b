# SPDX-License-Identifier: Apache-2.0
"""Decompositions of operators, a file for each family. Each enters itself in the table."""

from pillion.importers.torch.rewrite.decompositions import (  # noqa: F401  # they enter themselves
    dynamic_weights,
    embedding_bag,
    norms,
    padding,
    pairwise,
    pools,
    products,
    resizes,
    scatter,
    search_sorted,
    statistics,
    unpool,
    volumes,
    warps,
)
