# SPDX-License-Identifier: Apache-2.0
"""Groups of ops that the rules of several NPUs name."""

from __future__ import annotations

from pillion import ops

CONVOLUTIONS = (ops.Conv2d, ops.DepthwiseConv2d)
WEIGHTED = (*CONVOLUTIONS, ops.TransposeConv2d, ops.Linear)
POOLS = (ops.AvgPool2d, ops.MaxPool2d)
RESIZES = (ops.ResizeNearest, ops.ResizeBilinear)
EXTREMES = (ops.ReduceMax, ops.ReduceMin)
PAIRS = (ops.Add, ops.Sub, ops.Mul, ops.Minimum, ops.Maximum)
MOVES = (ops.Reshape, ops.Transpose, ops.Slice, ops.Pad)
SHARED = (*POOLS, *EXTREMES, ops.Minimum, ops.Maximum, ops.Concat, *MOVES)
"""Ops whose operands and results share scale and zero point."""
