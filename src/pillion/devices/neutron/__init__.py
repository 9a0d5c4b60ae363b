# SPDX-License-Identifier: Apache-2.0
"""NXP's eIQ Neutron: its rules, what it costs, what it asks of the quantizer. The docs table, `explain`, errors and tests
read the same rules.

Cycles are estimates from the published geometry (pipelines x MACs per cycle); no public simulator confirms them."""

from __future__ import annotations

import math

from pillion.devices.device import Device
from pillion.devices.neutron.limits import Geometry
from pillion.devices.neutron.rules import SUPPORTED, rules
from pillion.ir.op import Op
from pillion.ir.wishes import Wishes
from pillion.ops import Conv2d, DepthwiseConv2d, Linear, Reshape
from pillion.ops.matmul import BatchMatmul
from pillion.ops.transpose_conv import TransposeConv2d

DISPATCH_CYCLES = 2000
"""Starting the NPU and waiting for it (an estimate)."""
BYTES_PER_CYCLE = 8
"""Between SRAM and the NPU (an estimate)."""


def _estimate(op: Op, geometry: Geometry) -> int:
    """Cycles of one op: dot products in blocks of pipelines x MACs, or bytes moved, whichever is more."""
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


WISHES = Wishes(
    symmetric_operands=frozenset({"batch_matmul"}),
    shared=frozenset({"mean", "reduce_max", "reduce_min"}),
    per_tensor_weights=frozenset({"linear"}),
)
"""What the rules above need of the quantizer. Not for sums: in the steps of a sum nothing is left of what it sums up, so
a sum stays on the CPU."""


def neutron(name: str, geometry: Geometry) -> Device:
    """A Neutron of some size."""
    return Device(
        name=name,
        summary=f"NXP eIQ Neutron, {geometry.pipelines} x {geometry.macs} MAC per cycle",
        ops=frozenset(SUPPORTED),
        rules=rules(geometry),
        estimate=lambda op: _estimate(op, geometry),
        dispatch_cycles=DISPATCH_CYCLES,
        wishes=WISHES,
    )


N3_64 = neutron("neutron-n3-64", Geometry(8, 8))
N1_16 = neutron("neutron-n1-16", Geometry(4, 4))
