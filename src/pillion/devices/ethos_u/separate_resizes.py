# SPDX-License-Identifier: Apache-2.0
"""A pass before partitioning: Vela writes a resized image into a concatenation, and then reads its own intermediate images with the channels of
the concatenation."""

from __future__ import annotations

from dataclasses import replace

from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ops import Concat, MaxPool2d, ResizeBilinear


@rewrite_pass(ResizeBilinear)
def separate_resizes(op: ResizeBilinear, at: RewriteSweep) -> Replacement:
    """Copies a resized image, by a pool of single pixels, before it is concatenated, for NPUs with Vela."""
    if not isinstance(at.graph.only_user(op.y), Concat):
        return None
    resized = op.y.like(at.names.fresh(f"{op.name}_resized"))
    low, high = op.y.dtype.bounds
    return [replace(op, y=resized), MaxPool2d(x=resized, y=op.y, low=low, high=high, source=op.source)]
