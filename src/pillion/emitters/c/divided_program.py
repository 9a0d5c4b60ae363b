# SPDX-License-Identifier: Apache-2.0
"""A program whose buffers and constants are divided among the memories of a chip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pillion.chip_memory import ChipMemory, by_speed, constants_memory
from pillion.emitters.c.constant_copies import copied_arrays
from pillion.emitters.c.families.sliding_sums import place_sums_behind_states
from pillion.emitters.c.kernel_costs import kernel_instructions
from pillion.emitters.c.lower import CProgram, pack_constants, sizes_of
from pillion.emitters.c.select_and_plan import KernelPlan
from pillion.ir.op import Op
from pillion.ir.size_limits import LARGEST
from pillion.memory import MemoryRequest, PlanningEffort, is_alias, plan_memory
from pillion.memory.events import align_up


def divide_program(
    plan: KernelPlan, memories: Sequence[ChipMemory], effort: PlanningEffort = PlanningEffort.USUAL
) -> CProgram:
    """Returns the program of a kernel plan with its buffers, states and constants in the memories where the fewest
    wait cycles are estimated."""
    packed = plan if isinstance(plan, CProgram) else pack_constants(plan)
    request = MemoryRequest(
        by_speed(memories),
        constants_memory(memories),
        _constant_bytes(packed),
        packed.memory.state_bytes,
        _streamable(packed),
    )
    memory = plan_memory(plan.graph, plan.needs, effort, request)
    return pack_constants(replace(packed, memory=place_sums_behind_states(plan.sums, memory)))


def divide_alike(host: CProgram, program: CProgram) -> CProgram:
    """Returns the host's variant of a program in memories of the same names: both have the same interface."""
    arenas = program.memory.arenas
    if not arenas:
        return host
    memories = [replace(one.memory, npu=True) for one in arenas]
    memories[-1] = replace(memories[-1], bytes=LARGEST)
    divided = divide_program(host, memories)
    several = divided.memory.several
    assert several is not None
    least = divided.memory.alignment
    used = tuple(replace(one, arena_bytes=max(one.arena_bytes, least)) for one in several.used)
    return replace(divided, memory=replace(divided.memory, several=replace(several, used=used)))


def _streamable(program: CProgram) -> dict[Op, tuple[int, float]]:
    """Returns the ops of one call whose constants may be copied while the op before runs: the bytes of the buffer, and the
    estimated cycles of that op."""
    sizes = sizes_of(program.constants)
    steps = {step.choice.op: step for step in program.steps}
    found: dict[Op, tuple[int, float]] = {}
    before = 0.0
    for op in (op for op in program.graph.ops if not is_alias(op)):
        step = steps.get(op)
        arrays = (
            list(copied_arrays(step.pointers[0], sizes)) if step is not None and len(step.calls) == 1 else []
        )
        if arrays:
            found[op] = sum(align_up(array.bytes) for array in arrays), before
        before = kernel_instructions(op, step.choice.kernel, program.isa) if step is not None else 0.0
    return found


def _constant_bytes(program: CProgram) -> Mapping[Op, int]:
    """Returns the bytes of the constants that the kernels of each op read."""
    sizes = sizes_of(program.constants)
    found: dict[Op, int] = {}
    for step in program.steps:
        names = {name for pointers in step.pointers for name in pointers.values()}
        if names:
            found[step.choice.op] = sum(sizes[name] for name in names)
    return found
