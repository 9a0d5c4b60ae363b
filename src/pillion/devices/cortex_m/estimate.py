# SPDX-License-Identifier: Apache-2.0
"""What ops cost on the CPU: estimates for placement, never measurements."""

from __future__ import annotations

from pillion.devices.cortex_m.cores import Isa
from pillion.ir.op import Op

MACS_PER_CYCLE = {Isa.MVE: 6.0, Isa.DSP: 1.2, Isa.SCALAR: 0.4, Isa.PORTABLE: 0.25}
"""Multiply-accumulates of dot products in a cycle, for estimates."""
CYCLES_PER_ELEMENT = {Isa.MVE: 3, Isa.DSP: 8, Isa.SCALAR: 15, Isa.PORTABLE: 25}
"""Cycles for everything that is done once per element of the result: requantize, store, move."""


def estimate(op: Op, isa: Isa) -> int:
    """Estimates the cycles of one op on a core with an instruction set."""
    if op.kind in ("reshape", "repeat"):  # nothing to do, or only what the ops inside do
        return 0
    elements = sum(v.type.elements for v in op.results)
    return int(op.macs / MACS_PER_CYCLE[isa]) + elements * CYCLES_PER_ELEMENT[isa]


INSTRUCTIONS = {Isa.MVE: (8.0, 3.5), Isa.DSP: (1.2, 8.0), Isa.SCALAR: (0.5, 18.0), Isa.PORTABLE: (0.25, 25.0)}
"""Multiply-accumulates of an instruction, and instructions for each element of a result: for the six nets of docs/performance.md, sums
of these are 0.87 to 1.14 times the instructions that the emulator counts."""


def instructions(op: Op, isa: Isa) -> float:
    """Estimates the instructions of one op on a core with an instruction set."""
    if op.kind in ("reshape", "repeat", "segment"):  # nothing to do, or nothing for this core
        return 0.0
    macs, each = INSTRUCTIONS[isa]
    return op.macs / macs + each * sum(v.type.elements for v in op.results)
