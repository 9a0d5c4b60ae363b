# SPDX-License-Identifier: Apache-2.0
"""What ops cost on the CPU: estimates for placement, never measurements."""

from __future__ import annotations

from pillion.devices.cortex_m.cores import Isa
from pillion.ir.op import Op

MACS_PER_CYCLE = {Isa.MVE: 6.0, Isa.DSP: 1.2, Isa.PORTABLE: 0.25}
"""Multiply-accumulates of dot products in a cycle, for estimates."""
CYCLES_PER_ELEMENT = {Isa.MVE: 3, Isa.DSP: 8, Isa.PORTABLE: 25}
"""Cycles for everything that is done once per element of the result: requantize, store, move."""


def estimate(op: Op, isa: Isa) -> int:
    """Estimates the cycles of one op on a core with an instruction set."""
    if op.kind == "reshape":
        return 0
    elements = sum(v.type.elements for v in op.results)
    return int(op.macs / MACS_PER_CYCLE[isa]) + elements * CYCLES_PER_ELEMENT[isa]
