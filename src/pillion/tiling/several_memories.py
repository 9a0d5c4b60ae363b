# SPDX-License-Identifier: Apache-2.0
"""The search for the stripes of a program in several memories with the fewest estimated cycles, waits included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pillion.chip_memory import ChipMemory, by_speed
from pillion.compile_options import Memory
from pillion.emitters.c.divided_program import divide_program
from pillion.emitters.c.lower import CProgram
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.memory import PlanningEffort
from pillion.tiling.search import TilingPlan, TilingSearch, tiling_search

PRICES = (0.01, 0.05, 0.3)
"""Shares of instructions for which the smallest plans are tried."""


def divide_among_memories(
    graph: Graph, unstriped: CProgram, spec: Memory, memories: Sequence[ChipMemory], outside_bytes: int = 0
) -> TilingPlan:
    """Returns the plan with the fewest estimated cycles. `outside_bytes` is RAM that the NPU needs."""
    memories = _reserve(memories, outside_bytes)
    search = tiling_search(graph, unstriped, spec)
    best: tuple[float, TilingPlan] | None = None
    refused: PillionError | None = None
    for plan in _candidates(search, unstriped, memories):
        try:
            program = divide_program(plan.arranged, memories)
        except PillionError as error:
            refused = refused or error
            continue
        assert program.memory.several is not None
        cycles = search.exact_cost(plan) + program.memory.several.waits
        if best is None or cycles < best[0]:
            best = cycles, TilingPlan(plan.stripes, program)
    if best is None:
        assert refused is not None
        raise refused
    final = best[1].program
    return TilingPlan(best[1].stripes, divide_program(final, memories, PlanningEffort.MOST))


def _candidates(
    search: TilingSearch, unstriped: CProgram, memories: Sequence[ChipMemory]
) -> Iterator[TilingPlan]:
    """Yields plans with different stripes: without stripes, for the room in the fastest memory, and the smallest
    plans for some prices."""
    simplest = search.simplest()
    known = {simplest.stripes}
    yield simplest
    fastest = by_speed(memories)[0].usable_bytes
    if simplest.bytes <= fastest:
        return
    try:
        plans = [search.within(fastest, 0)]
    except PillionError:
        plans = []
    for share in PRICES:
        plans.append(search.smallest_within_extra(share * search.candidates.instructions))
    for plan in plans:
        if plan.stripes not in known:
            known.add(plan.stripes)
            yield plan


def _reserve(memories: Sequence[ChipMemory], outside_bytes: int) -> list[ChipMemory]:
    """Returns the memories with the bytes that the NPU needs reserved in the fastest one that it reaches and that holds them."""
    holder = next((m for m in by_speed(memories) if m.npu and m.bytes >= outside_bytes), None)
    return [replace(m, reserved=outside_bytes) if m is holder else m for m in memories]
