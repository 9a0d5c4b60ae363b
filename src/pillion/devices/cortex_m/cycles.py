# SPDX-License-Identifier: Apache-2.0
"""Cycle tables: minimum and maximum cycles of each instruction class on each core, in zero-wait memory. Every
row names its source, or the substitute if the manufacturer publishes no table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pillion.devices.cortex_m.classes import InstructionClass
from pillion.devices.cycle_range import CycleRange


def _cycle_range(low: float, high: float) -> CycleRange:
    return CycleRange(low, high)


@dataclass(frozen=True)
class CoreCycles:
    """The cycles of a core's instructions as ranges; `source` names where they come from."""

    cycles: Mapping[InstructionClass, CycleRange]
    per_register: CycleRange
    """For each register that a multiple load or store moves beyond its first."""
    taken: CycleRange
    """For each taken jump, in addition to the instruction: the pipeline refill."""
    source: str


_ARMV7M = {
    InstructionClass.ALU: _cycle_range(1, 1),
    InstructionClass.MULTIPLY: _cycle_range(1, 1),
    InstructionClass.MULTIPLY_LONG: _cycle_range(1, 1),
    InstructionClass.DIVIDE: _cycle_range(2, 12),
    InstructionClass.LOAD: _cycle_range(1, 2),  # 2, and 1 where it follows another load or store
    InstructionClass.STORE: _cycle_range(1, 2),  # 2, and 1 where the write buffer is free
    InstructionClass.MULTIPLE: _cycle_range(2, 2),  # 1 + N
    InstructionClass.BRANCH: _cycle_range(1, 1),
    InstructionClass.PREFIX: _cycle_range(0, 1),  # folded into the instruction before it
    InstructionClass.LOOP: _cycle_range(0, 1),
    InstructionClass.FLOAT: _cycle_range(1, 3),
    InstructionClass.FLOAT_DIVIDE: _cycle_range(14, 14),
}
_HELIUM = {
    InstructionClass.VECTOR: _cycle_range(1, 2),
    InstructionClass.VECTOR_MEMORY: _cycle_range(1, 2),
    InstructionClass.VECTOR_GATHER: _cycle_range(4, 16),
}
"""Two beats per cycle: two cycles for 128 bits, half of which overlaps between neighbours in different
units."""

_ARMV6M = {
    **_ARMV7M,
    InstructionClass.MULTIPLY: _cycle_range(1, 32),  # the chip has a fast or a small multiplier
    InstructionClass.LOAD: _cycle_range(2, 2),
    InstructionClass.STORE: _cycle_range(2, 2),
}

CYCLES: Mapping[str, CoreCycles] = {
    "cortex-m0": CoreCycles(
        _ARMV6M,
        per_register=_cycle_range(1, 1),
        taken=_cycle_range(2, 3),
        source="Arm, Cortex-M0 Technical Reference Manual (DDI 0432), instruction set summary",
    ),
    "cortex-m0plus": CoreCycles(
        _ARMV6M,
        per_register=_cycle_range(1, 1),
        taken=_cycle_range(1, 2),
        source="Arm, Cortex-M0+ Technical Reference Manual (DDI 0484), instruction set summary",
    ),
    "cortex-m3": CoreCycles(
        {
            **_ARMV7M,
            InstructionClass.MULTIPLY: _cycle_range(1, 2),
            InstructionClass.MULTIPLY_LONG: _cycle_range(3, 7),
        },
        per_register=_cycle_range(1, 1),
        taken=_cycle_range(1, 3),
        source="Arm, Cortex-M3 Technical Reference Manual (DDI 0337), instruction set summary",
    ),
    "cortex-m4": CoreCycles(
        _ARMV7M,
        per_register=_cycle_range(1, 1),
        taken=_cycle_range(1, 3),
        source="Arm, Cortex-M4 Technical Reference Manual (100166), table of processor instructions",
    ),
    "cortex-m33": CoreCycles(
        {
            **_ARMV7M,
            InstructionClass.ALU: _cycle_range(0.75, 1),
            InstructionClass.MULTIPLY_LONG: _cycle_range(1, 2),
        },
        per_register=_cycle_range(1, 1),
        taken=_cycle_range(1, 3),
        source="the table of Cortex-M4, which LLVM's scheduler uses for this core, too: Arm publishes none; "
        "pairs of short instructions may issue together (Arm, Cortex-M33 datasheet): assumed for up to every second one",
    ),
    "cortex-m7": CoreCycles(
        {
            **_ARMV7M,
            InstructionClass.ALU: _cycle_range(0.5, 1),
            InstructionClass.MULTIPLY_LONG: _cycle_range(1, 2),
            InstructionClass.DIVIDE: _cycle_range(3, 20),
            InstructionClass.LOAD: _cycle_range(0.5, 2),
            InstructionClass.STORE: _cycle_range(0.5, 1),
            InstructionClass.MULTIPLE: _cycle_range(1, 2),
            InstructionClass.BRANCH: _cycle_range(0.5, 1),
        },
        per_register=_cycle_range(0.5, 1),
        taken=_cycle_range(0, 4),
        source="LLVM's scheduling model ARMScheduleM7.td (two issues a cycle, loads of 2 cycles): Arm publishes no table; "
        "the predictor of branches assumed right in the best case, wrong for about every second jump in the worst",
    ),
    "cortex-m55": CoreCycles(
        {
            **_ARMV7M,
            **_HELIUM,
            InstructionClass.ALU: _cycle_range(0.75, 1),
            InstructionClass.MULTIPLY: _cycle_range(1, 2),
            InstructionClass.MULTIPLY_LONG: _cycle_range(1, 2),
            InstructionClass.STORE: _cycle_range(1, 1),
            InstructionClass.MULTIPLE: _cycle_range(1, 2),
            InstructionClass.FLOAT: _cycle_range(1, 2),
        },
        per_register=_cycle_range(0.5, 1),
        taken=_cycle_range(1, 3),
        source="Arm, Cortex-M55 Software Optimization Guide (102692): two beats a cycle, loads and stores of 64 bits a cycle, "
        "some pairs of short instructions together",
    ),
    "cortex-m85": CoreCycles(
        {
            **_ARMV7M,
            **_HELIUM,
            InstructionClass.ALU: _cycle_range(0.5, 1),
            InstructionClass.MULTIPLY: _cycle_range(0.5, 1),
            InstructionClass.MULTIPLY_LONG: _cycle_range(1, 2),
            InstructionClass.LOAD: _cycle_range(0.5, 2),
            InstructionClass.STORE: _cycle_range(0.5, 1),
            InstructionClass.MULTIPLE: _cycle_range(1, 2),
            InstructionClass.BRANCH: _cycle_range(0.5, 1),
            InstructionClass.FLOAT: _cycle_range(0.5, 2),
        },
        per_register=_cycle_range(0.5, 1),
        taken=_cycle_range(0, 3),
        source="Arm, Cortex-M85 Software Optimization Guide (107950): two issues a cycle, two beats a cycle, branches predicted",
    ),
}
_NO_TABLE = "Arm publishes no table"
CYCLES = {
    **CYCLES,
    "cortex-m1": replace(
        CYCLES["cortex-m0"], source=f"the table of Cortex-M0, which has three stages, too: {_NO_TABLE}"
    ),
    "cortex-m23": replace(
        CYCLES["cortex-m0plus"], source=f"the table of Cortex-M0+, which has two stages, too: {_NO_TABLE}"
    ),
    "cortex-m35p": CYCLES["cortex-m33"],
    "cortex-m52": replace(
        CYCLES["cortex-m55"],
        cycles={
            **CYCLES["cortex-m55"].cycles,
            InstructionClass.VECTOR: _cycle_range(1, 4),
            InstructionClass.VECTOR_MEMORY: _cycle_range(1, 4),
            InstructionClass.VECTOR_GATHER: _cycle_range(4, 32),
        },
        source=f"the table of Cortex-M55, with one beat a cycle in the worst case: {_NO_TABLE}",
    ),
}
"""Cycle tables by core name, without extensions: one for every core."""
