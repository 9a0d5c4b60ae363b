# SPDX-License-Identifier: Apache-2.0
"""What NXP's converter removes from a segment: it fails on segments in which nothing is left."""

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
"""They become the way in which their neighbours read and write."""
REMOVED_WHERE_IDLE = (
    *(Concat, Pad, Mean, ReduceSum, ReduceMax, ReduceMin, Add, Sub, Mul),
    *(AvgPool2d, MaxPool2d, ResizeNearest, ResizeBilinear),
)


def drops(op: Op) -> bool:
    """Whether nothing of an op is left for the NPU to compute."""
    return isinstance(op, ADDRESSES) or (isinstance(op, REMOVED_WHERE_IDLE) and op.is_idle)
