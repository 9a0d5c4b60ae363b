# SPDX-License-Identifier: Apache-2.0
"""Estimated costs of ops on the CPU, for partitioning; these are no measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pillion.devices.cortex_m.cores import Isa
from pillion.ir.op import Op

MACS_PER_CYCLE = {Isa.MVE: 6.0, Isa.DSP: 1.2, Isa.SCALAR: 0.4, Isa.PORTABLE: 0.25}
"""Estimated multiply-accumulates per cycle in dot products."""
CYCLES_PER_ELEMENT = {Isa.MVE: 3, Isa.DSP: 8, Isa.SCALAR: 15, Isa.PORTABLE: 25}
"""Estimated cycles per element of the result: requantize, store, move."""


def estimate(op: Op, isa: Isa) -> int:
    """Returns the estimated cycles of one op on a core with this instruction set."""
    if op.kind in ("reshape", "scan"):  # no work of its own
        return 0
    elements = sum(v.type.elements for v in op.results)
    return int(op.macs / MACS_PER_CYCLE[isa]) + elements * CYCLES_PER_ELEMENT[isa]


@dataclass(frozen=True)
class InstructionCosts:
    """The instructions of an op: per multiply-accumulate, per element of the result, and per channel of the
    result."""

    mac: float
    element: float
    channel: float = 0.0


OTHERS = {
    Isa.MVE: InstructionCosts(1 / 8, 3.5),
    Isa.DSP: InstructionCosts(1 / 1.2, 8.0),
    Isa.SCALAR: InstructionCosts(2.0, 18.0),
    Isa.PORTABLE: InstructionCosts(4.0, 25.0),
}
"""The costs of ops without a row in KNOWN."""
KNOWN: Mapping[Isa, Mapping[str, InstructionCosts]] = {
    Isa.MVE: {
        "conv2d": InstructionCosts(0.1122, 2.78, 18.0),
        "depthwise_conv2d": InstructionCosts(0.383, 1.43, 90.0),
        "linear": InstructionCosts(0.134, 4.3),
        "concat": InstructionCosts(0.0, 2.6),
        "resize_nearest": InstructionCosts(0.0, 0.32),
        "resize_bilinear_float": InstructionCosts(0.0, 5.6),
        "mul": InstructionCosts(0.0, 3.6),
        "add": InstructionCosts(0.0, 1.8),
        "lut": InstructionCosts(0.0, 0.25),
        "max_pool2d": InstructionCosts(0.0, 7.0),
    },
    Isa.DSP: {
        "conv2d": InstructionCosts(0.7443, 9.3),
        "depthwise_conv2d": InstructionCosts(0.91, 10.6, 214.0),
        "linear": InstructionCosts(0.89, 6.6),
        "concat": InstructionCosts(0.0, 4.2),
        "resize_nearest": InstructionCosts(0.0, 1.4),
        "resize_bilinear_float": InstructionCosts(0.0, 21.5),
        "mul": InstructionCosts(0.0, 11.4),
        "add": InstructionCosts(0.0, 7.3),
        "lut": InstructionCosts(0.0, 3.4),
        "max_pool2d": InstructionCosts(0.0, 15.8),
    },
}
"""Costs fitted to instructions counted in the emulator. For the seven networks of docs/performance.md, the
estimated sums are 0.95 to 1.04 times the counted instructions."""


def instructions(op: Op, isa: Isa) -> float:
    """Returns the estimated instructions of one op on a core with this instruction set."""
    if op.kind in ("reshape", "scan", "segment"):  # no work of its own on the core
        return 0.0
    work = KNOWN.get(isa, {}).get(op.kind, OTHERS[isa])
    elements, shape = sum(v.type.elements for v in op.results), op.results[0].shape
    return work.mac * op.macs + work.element * elements + work.channel * (shape[-1] if shape else 1)
