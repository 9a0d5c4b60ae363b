# SPDX-License-Identifier: Apache-2.0
"""Cycle tables: minimum and maximum cycles of each instruction class on each core, in zero-wait memory. Every
row names its source, or the substitute if the manufacturer publishes no table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pillion.devices.cortex_m.classes import InstructionClass
from pillion.devices.cycle_range import CycleRange

Cycles = Mapping[InstructionClass, CycleRange]


def _override_cycles(base: Cycles, **rows: tuple[float, float]) -> Cycles:
    """Returns a table with other cycles for the named classes."""
    return {**base, **{InstructionClass[name]: CycleRange(*ends) for name, ends in rows.items()}}


_CYCLE, _REFILL = CycleRange(1, 1), CycleRange(1, 3)


@dataclass(frozen=True)
class CoreCycles:
    """The cycles of a core's instructions as ranges; `source` names where they come from."""

    cycles: Mapping[InstructionClass, CycleRange]
    source: str
    per_register: CycleRange = _CYCLE
    """For each register that a multiple load or store moves beyond its first."""
    taken: CycleRange = _REFILL
    """For each taken jump, in addition to the instruction: the pipeline refill."""


_ARMV7M = _override_cycles(
    {},
    ALU=(1, 1),
    MULTIPLY=(1, 1),
    MULTIPLY_LONG=(1, 1),
    DIVIDE=(2, 12),
    LOAD=(1, 2),  # 2, and 1 where it follows another load or store
    STORE=(1, 2),  # 2, and 1 where the write buffer is free
    MULTIPLE=(2, 2),  # 1 + N
    BRANCH=(1, 1),
    PREFIX=(0, 1),  # folded into the instruction before it
    LOOP=(0, 1),
    FLOAT=(1, 3),
    FLOAT_DIVIDE=(14, 14),
)
_HELIUM = _override_cycles(_ARMV7M, VECTOR=(1, 2), VECTOR_MEMORY=(1, 2), VECTOR_GATHER=(4, 16))
"""Two beats per cycle: two cycles for 128 bits, of which neighbours in different units overlap one."""

_ARMV6M = _override_cycles(_ARMV7M, MULTIPLY=(1, 32), LOAD=(2, 2), STORE=(2, 2))
"""The chip has a fast or a small multiplier."""

CYCLES: Mapping[str, CoreCycles] = {
    "cortex-m0": CoreCycles(
        _ARMV6M,
        taken=CycleRange(2, 3),
        source="Arm, Cortex-M0 Technical Reference Manual (DDI 0432), instruction set summary",
    ),
    "cortex-m0plus": CoreCycles(
        _ARMV6M,
        taken=CycleRange(1, 2),
        source="Arm, Cortex-M0+ Technical Reference Manual (DDI 0484), instruction set summary",
    ),
    "cortex-m3": CoreCycles(
        _override_cycles(_ARMV7M, MULTIPLY=(1, 2), MULTIPLY_LONG=(3, 7)),
        source="Arm, Cortex-M3 Technical Reference Manual (DDI 0337), instruction set summary",
    ),
    "cortex-m4": CoreCycles(
        _ARMV7M, source="Arm, Cortex-M4 Technical Reference Manual (100166), table of processor instructions"
    ),
    "cortex-m33": CoreCycles(
        _override_cycles(_ARMV7M, ALU=(0.75, 1), MULTIPLY_LONG=(1, 2)),
        source="the table of Cortex-M4, which LLVM's scheduler uses for this core, too: Arm publishes none; "
        "pairs of short instructions may issue together (Arm, Cortex-M33 datasheet): assumed for up to every second one",
    ),
    "cortex-m7": CoreCycles(
        _override_cycles(
            _ARMV7M,
            ALU=(0.5, 1),
            MULTIPLY_LONG=(1, 2),
            DIVIDE=(3, 20),
            LOAD=(0.5, 2),
            STORE=(0.5, 1),
            MULTIPLE=(1, 2),
            BRANCH=(0.5, 1),
        ),
        per_register=CycleRange(0.5, 1),
        taken=CycleRange(0, 4),
        source="LLVM's scheduling model ARMScheduleM7.td (two issues a cycle, loads of 2 cycles): Arm publishes no table; "
        "the predictor of branches assumed right in the best case, wrong for about every second jump in the worst",
    ),
    "cortex-m55": CoreCycles(
        _override_cycles(
            _HELIUM,
            ALU=(0.75, 1),
            MULTIPLY=(1, 2),
            MULTIPLY_LONG=(1, 2),
            STORE=(1, 1),
            MULTIPLE=(1, 2),
            FLOAT=(1, 2),
        ),
        per_register=CycleRange(0.5, 1),
        source="Arm, Cortex-M55 Software Optimization Guide (102692): two beats a cycle, loads and stores of 64 bits a cycle, "
        "some pairs of short instructions together",
    ),
    "cortex-m85": CoreCycles(
        _override_cycles(
            _HELIUM,
            ALU=(0.5, 1),
            MULTIPLY=(0.5, 1),
            MULTIPLY_LONG=(1, 2),
            LOAD=(0.5, 2),
            STORE=(0.5, 1),
            MULTIPLE=(1, 2),
            BRANCH=(0.5, 1),
            FLOAT=(0.5, 2),
        ),
        per_register=CycleRange(0.5, 1),
        taken=CycleRange(0, 3),
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
        cycles=_override_cycles(
            CYCLES["cortex-m55"].cycles, VECTOR=(1, 4), VECTOR_MEMORY=(1, 4), VECTOR_GATHER=(4, 32)
        ),
        source=f"the table of Cortex-M55, with one beat a cycle in the worst case: {_NO_TABLE}",
    ),
}
"""Cycle tables by core name, without extensions: one for every core."""
