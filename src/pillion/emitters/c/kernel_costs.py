# SPDX-License-Identifier: Apache-2.0
"""The estimated instructions of ops by their kernels, for placement, tiling and time alike.

An estimate is a sum of the sizes of an op (cost_features.py), each times a coefficient of its kernel on a core.
kernel_costs.json holds them; benchmarks/kernel_costs.py fits them to instructions counted in the emulator."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from pillion.devices.cortex_m import CORES, Core, Isa
from pillion.devices.cortex_m.classes import LINE_BYTES, InstructionClass, InstructionCounts, MemoryAccesses
from pillion.devices.cortex_m.memories import MEMORIES, MemoryAssumption
from pillion.devices.cortex_m.op_cycles import counted_cycles
from pillion.devices.cycle_range import NOTHING, CycleRange, sum_of_ranges
from pillion.emitters.c.cost_features import cost_features
from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_choice import choose_kernels, kernels
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ops import Region

TABLE = "kernel_costs.json"
FREE = ("reshape", "scan", "segment")
"""Ops without work of their own on the core."""
SMALL_CORES = ("cortex-m0", "cortex-m0plus", "cortex-m1", "cortex-m23")
"""Cores whose instruction set lacks products of 64 bits, and most instructions with three registers."""
FITTED_CORES = {Isa.MVE: "cortex-m55", Isa.DSP: "cortex-m33"}
SCALAR_CORE = "cortex-m3"
UNKNOWN = {"call": 80.0, "macs": 4.0, "results": 25.0}
"""The coefficients of ops without any counted kernel."""
UNKNOWN_MIX = {"ALU": 0.5, "LOAD": 0.2, "STORE": 0.1, "MULTIPLY": 0.1, "BRANCH": 0.1, "taken": 0.1}
ASIDE = ("registers", "taken")
"""Entries of a mix that are no classes."""
ERROR = CycleRange(0.75, 1.25)
"""The factor range of estimated instructions: 95 of 100 are within it."""
Costs = Mapping[str, Mapping[str, Any]]
CyclesOf = Callable[[Op], int]


@cache
def kernel_costs() -> Mapping[str, Costs]:
    """Returns for each counted core the coefficients and the mix of instructions of each kernel."""
    text = (resources.files("pillion.emitters.c") / TABLE).read_text("utf-8")
    return json.loads(text)


def fitted_core(core: str | Isa) -> str:
    """Returns the core in the emulator on which the kernels of a core, or of an instruction set, were counted."""
    isa = core if isinstance(core, Isa) else CORES[core].isa
    return "cortex-m0" if core in SMALL_CORES else FITTED_CORES.get(isa, SCALAR_CORE)


def _row(kernel: Kernel, core: str) -> Mapping[str, Any] | None:
    """Returns the cost row of a kernel. A kernel without a row and without `work`, such as a plug-in's, counts as the
    first kernel of its op that has a row."""
    rows = kernel_costs()[core]
    if kernel.name in rows or kernel.work:
        return rows.get(kernel.name)
    return next(
        (rows[k.name] for k in kernels(CORES[core].isa) if k.op is kernel.op and k.name in rows), None
    )


def kernel_instructions(op: Op, kernel: Kernel, core: str | Isa) -> float:
    """Returns the estimated instructions of an op by a kernel."""
    if op.kind in FREE:
        return 0.0
    row = _row(kernel, fitted_core(core))
    if row is None and kernel.work:
        return kernel.work(op)
    found = cost_features(op, kernel)
    coefficients = row["coefficients"] if row else UNKNOWN
    return sum(coefficient * found.get(name, 0.0) for name, coefficient in coefficients.items())


def estimated_executed(op: Op, kernel: Kernel, core: str | Isa) -> InstructionCounts:
    """Returns the estimated instructions of an op by class, and the memory that it touches, once."""
    row = _row(kernel, fitted_core(core))
    mix: Mapping[str, float] = row["mix"] if row else UNKNOWN_MIX
    count = kernel_instructions(op, kernel, core)
    counts = {InstructionClass[name]: round(count * part) for name, part in mix.items() if name not in ASIDE}
    registers, taken = (round(count * mix.get(name, 0.0)) for name in ASIDE)
    held = (sum(v.type.size_bytes for v in op.operands if v.is_constant), _moved_bytes(op))
    constants, arena = (MemoryAccesses(n, -(-n // LINE_BYTES)) for n in held)
    return InstructionCounts(counts, registers, taken, constants, arena)


def _moved_bytes(op: Op) -> int:
    return sum(v.type.size_bytes for v in (*op.activations, *op.results))


def estimated_cycles(
    op: Op, core: Core, arithmetic: Arithmetic, memories: MemoryAssumption, hertz: float
) -> CycleRange:
    """Returns the cycle range of an op that was not executed, by the kernel that the compiler chooses for it."""
    if isinstance(op, Region):
        inner = (estimated_cycles(one, core, arithmetic, memories, hertz) for one in op.body.ops)
        return sum_of_ranges(inner)
    if op.kind in FREE or not op.results[0].type.elements:
        return NOTHING
    ran = estimated_executed(op, _kernel_of(op, core.isa, arithmetic), core.name)
    range_of_count = counted_cycles(core, ran, memories, hertz)
    return CycleRange(ERROR.low * range_of_count.low, ERROR.high * range_of_count.high)


def _kernel_of(op: Op, isa: Isa, arithmetic: Arithmetic) -> Kernel:
    """Returns the kernel of an op; one of unknown cost if none takes it, which lowering reports."""
    try:
        return choose_kernels(Graph("op", op.activations, (op,), op.results, arithmetic), isa)[0].kernel
    except PillionError:
        return NO_KERNEL


NO_KERNEL = Kernel("none", Op, calls=lambda op, arithmetic: ())


def core_cycles(core: Core, arithmetic: Arithmetic = Arithmetic.CMSIS_NN) -> CyclesOf:
    """Returns the function by which placement estimates the cycles of an op on a core, in memory without wait states:
    the middle of the range."""
    known: dict[Op, int] = {}

    def cycles_of(op: Op) -> int:
        if op not in known:
            found = estimated_cycles(op, core, arithmetic, MEMORIES["tcm"], 1.0)
            known[op] = round((found.low + found.high) / 2)
        return known[op]

    return cycles_of
