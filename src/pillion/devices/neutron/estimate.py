# SPDX-License-Identifier: Apache-2.0
"""What ops cost on a Neutron: estimates from the published geometry (pipelines x MACs per cycle), which no public simulator
confirms."""

from __future__ import annotations

import math

from pillion.devices.neutron.limits import Geometry
from pillion.ir.op import Op
from pillion.ops import Conv2d, DepthwiseConv2d, Linear, Reshape
from pillion.ops.matmul import BatchMatmul
from pillion.ops.transpose_conv import TransposeConv2d

DISPATCH_CYCLES = 2000
"""Starting the NPU and waiting for it (an estimate)."""
BYTES_PER_CYCLE = 8
"""Bytes that move between SRAM and the NPU in a cycle (an estimate)."""


def estimate(op: Op, geometry: Geometry) -> int:
    """Estimates the cycles of one op: dot products in blocks of pipelines x MACs, or bytes moved, whichever is more."""
    moved = sum(v.type.size_bytes for v in (*op.operands, *op.results)) // BYTES_PER_CYCLE
    match op:
        case Conv2d() | Linear():
            depth = op.macs // op.y.type.elements
            blocks = -(-op.y.shape[-1] // geometry.pipelines) * -(-depth // geometry.macs)
            return max(moved, op.y.type.elements // op.y.shape[-1] * blocks)
        case BatchMatmul():
            blocks = -(-op.columns // geometry.pipelines) * -(-op.depth // geometry.macs)
            return max(moved, op.a.shape[0] * op.rows * blocks)
        case TransposeConv2d():
            blocks = -(-op.out_channels // geometry.pipelines) * -(-op.in_channels // geometry.macs)
            return max(moved, op.x.type.elements // op.in_channels * math.prod(op.kernel) * blocks)
        case DepthwiseConv2d():
            return max(moved, op.macs // geometry.pipelines)
        case Reshape():
            return 0
        case _:
            return moved
