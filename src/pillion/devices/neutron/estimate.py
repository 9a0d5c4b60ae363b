# SPDX-License-Identifier: Apache-2.0
"""Estimated costs of ops on a Neutron, from the published geometry (pipelines x MACs per cycle) and from
measurements."""

from __future__ import annotations

import math

from pillion.devices.cycle_range import CycleRange
from pillion.devices.neutron.limits import NeutronGeometry
from pillion.ir.op import Op
from pillion.ops import Conv2d, DepthwiseConv2d, Linear, Reshape
from pillion.ops.matmul import BatchMatmul
from pillion.ops.transpose_conv import TransposeConv2d

DISPATCH_CYCLES = 2000
"""The estimated cycles to start the NPU and wait for it."""
UNCERTAINTY = CycleRange(0.9, 1.8)
"""The factor range of estimates. With the start of each kernel, it was chosen so that four published whole inferences
(i.MX RT700 and MCX N947) lie around the middle."""
KERNEL_START = CycleRange(5600, 11200)
"""The cycles to start the kernel of an op: the core runs the NPU's firmware."""
BYTES_PER_CYCLE = 8
"""The estimated bandwidth between SRAM and the NPU in bytes per cycle."""


def estimate(op: Op, geometry: NeutronGeometry) -> int:
    """Returns the estimated cycles of one op: the larger of dot products in blocks of pipelines x MACs, and
    bytes moved."""
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
