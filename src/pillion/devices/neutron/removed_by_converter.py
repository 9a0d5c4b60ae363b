# SPDX-License-Identifier: Apache-2.0
"""Ops that NXP's converter removes from a segment. It fails if no op is left."""

from __future__ import annotations

from pillion.ir.op import Op
from pillion.ops import (
    Add,
    AvgPool2d,
    Concat,
    MaxPool2d,
    Mean,
    Mul,
    Pad,
    ReduceMax,
    ReduceMin,
    ReduceSum,
    Reshape,
    ResizeBilinear,
    ResizeNearest,
    Slice,
    Sub,
    Transpose,
)

ADDRESSES = (Reshape, Transpose, Slice)
"""Ops that the converter merges into the addressing of their neighbours."""
REMOVED_IF_IDENTITY = (
    *(Concat, Pad, Mean, ReduceSum, ReduceMax, ReduceMin, Add, Sub, Mul),
    *(AvgPool2d, MaxPool2d, ResizeNearest, ResizeBilinear),
)


def is_removed(op: Op) -> bool:
    """Whether the converter removes an op."""
    return isinstance(op, ADDRESSES) or (isinstance(op, REMOVED_IF_IDENTITY) and op.is_identity)
