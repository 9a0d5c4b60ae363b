# SPDX-License-Identifier: Apache-2.0
"""Selects a kernel for each op and plans the memory: everything before constants are packed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.families.sliding_sums import RunningSums, place_sums_behind_states, running_sums
from pillion.emitters.c.kernel_choice import BYTE_PRICE, KernelChoice, choose_kernels, choose_variant_kernels
from pillion.emitters.c.scan_calls import repeat_memory
from pillion.emitters.c.sliding_moves import choices_without_kernel
from pillion.emitters.c.tile_variants import RegionVariants, VariantCache, memory_of
from pillion.errors import PillionError
from pillion.ir.graph import Graph, c_identifier, require_computed_outputs
from pillion.ir.op import Op
from pillion.ir.size_limits import LARGEST
from pillion.ir.workspace import Workspace
from pillion.memory import (
    MemoryPlan,
    Needs,
    OpMemory,
    PlanningEffort,
    RegionMemory,
    RepeatMemory,
    SlidingBuffer,
    plan_memory,
    sliding_buffers_of,
    states_to_copy,
)
from pillion.memory.npu_calls import NpuCalls, overlapped_ops
from pillion.ops import Region, Scan, Segment, flatten_ops
from pillion.ops.state_io import copy_new_states
from pillion.option_values import Optimize


@dataclass(frozen=True)
class KernelPlan:
    """A graph with the kernels of its ops and the memory plan."""

    graph: Graph
    isa: Isa
    optimize: Optimize
    regions: Mapping[Op, RegionVariants]
    sliding: tuple[SlidingBuffer, ...]
    sums: tuple[RunningSums, ...]
    chosen: Mapping[Op, KernelChoice]
    """The kernel of each op, and of each variant of ops inside regions."""
    needs: Needs
    memory: MemoryPlan
    workspaces: tuple[Workspace, ...] = ()
    """The memory of each NPU segment that works in the arena."""
    npu_calls: NpuCalls = NpuCalls.BLOCKING
    byte_price: float = BYTE_PRICE
    """The instructions that a further byte of flash must save."""

    @property
    def in_steps(self) -> bool:
        """Whether the C runs in steps, which end where they must wait for the NPU."""
        return self.npu_calls is not NpuCalls.BLOCKING


def select_and_plan(
    graph: Graph,
    isa: Isa = Isa.PORTABLE,
    optimize: Optimize = "speed",
    known: VariantCache | None = None,
    workspaces: tuple[Workspace, ...] = (),
    npu_calls: NpuCalls = NpuCalls.BLOCKING,
    byte_price: float = BYTE_PRICE,
) -> KernelPlan:
    """Chooses a kernel for each op and plans the memory. `known` caches variants and kernels between plans of the
    same ops; `workspaces` are the memory of the NPU segments; each further byte of flash must save `byte_price`
    instructions."""
    require_computed_outputs(graph)
    _require_single_row_reader(graph)
    graph = copy_new_states(graph.replace(name=c_identifier(graph.name)))
    choose = partial(choose_kernels, isa=isa, optimize=optimize, byte_price=byte_price)
    known = VariantCache() if known is None or optimize == "size" else known
    regions: dict[Op, RegionVariants] = {
        op: RegionVariants(op, known) for op in graph.ops if isinstance(op, Region)
    }
    sliding = tuple(sliding_buffers_of(graph))
    sums = tuple(running_sums(graph, sliding, isa))
    chosen = _choose_all_kernels(graph, regions, isa, choose, known.choices)
    chosen |= choices_without_kernel(sliding) | {op_sums.op: op_sums.choice for op_sums in sums}
    left = (
        states_to_copy(graph, _memory_needs(graph, regions, chosen, workspaces, npu_calls))
        if graph.states
        else ()
    )
    if left:
        graph = copy_new_states(graph, left)
        chosen |= _choose_all_kernels(graph.replace(ops=graph.ops[-len(left) :]), {}, isa, choose, {})
    needs = _memory_needs(graph, regions, chosen, workspaces, npu_calls)
    memory = place_sums_behind_states(sums, plan_memory(graph, needs))
    if memory.arena_bytes + memory.state_bytes > LARGEST:
        raise _arena_too_large_error(graph, memory)
    return KernelPlan(
        graph,
        isa,
        optimize,
        regions,
        sliding,
        sums,
        chosen,
        needs,
        memory,
        workspaces,
        npu_calls,
        byte_price,
    )


def with_least_memory(found: KernelPlan) -> KernelPlan:
    """Returns the plan with the memory allocated at full effort, for a plan that is kept."""
    best = plan_memory(found.graph, found.needs, PlanningEffort.MOST)
    if best.arena_bytes > found.memory.arena_bytes:
        return found
    return replace(found, memory=place_sums_behind_states(found.sums, best))


def _choose_all_kernels(
    graph: Graph,
    regions: Mapping[Op, RegionVariants],
    isa: Isa,
    choose: Callable[[Graph], Sequence[KernelChoice]],
    known: dict[Op, KernelChoice],
) -> dict[Op, KernelChoice]:
    """Returns the kernel of each op, and of each variant inside regions; adds new choices to `known`."""
    variants = [
        variant
        for op in graph.ops
        for variant in (regions[op].variants if op in regions else flatten_ops([op]))
    ]
    missing = tuple(variant for variant in dict.fromkeys(variants) if variant not in known)
    known |= {c.op: c for c in choose(graph.replace(ops=missing))}
    choices = {variant: known[variant] for variant in variants}
    for uses in (uses for cuts in regions.values() for uses in cuts.of_ops):
        choices |= choose_variant_kernels(uses.variants, uses.most_frequent, choices, graph.arithmetic, isa)
    return choices


def _memory_needs(
    graph: Graph,
    regions: Mapping[Op, RegionVariants],
    chosen: Mapping[Op, KernelChoice],
    workspaces: tuple[Workspace, ...],
    npu_calls: NpuCalls,
) -> Needs:
    segments = [op for op in graph.ops if isinstance(op, Segment)]
    work = zip(segments, workspaces, strict=True) if workspaces else ((op, None) for op in segments)
    beside = overlapped_ops(graph, npu_calls)
    own = {op: OpMemory(of_npu.bytes if of_npu else 0, 0, (), of_npu, beside[op]) for op, of_npu in work}
    return {op: _op_memory_need(op, regions, chosen) for op in graph.ops} | own


def _op_memory_need(
    op: Op, regions: Mapping[Op, RegionVariants], chosen: Mapping[Op, KernelChoice]
) -> OpMemory | RegionMemory | RepeatMemory:
    if op in regions:
        return regions[op].memory(chosen)
    return repeat_memory(op, chosen) if isinstance(op, Scan) else memory_of(chosen[op])


def _require_single_row_reader(graph: Graph) -> None:
    """Raises if rows are passed in for an input that anything but a single region reads."""
    fed = [op for op in graph.ops if isinstance(op, Region) and op.fed_value is not None]
    for op in fed:
        value = op.xs[0]
        if len(fed) > 1 or value not in graph.inputs or graph.users[value] != [op] or value in graph.sinks:
            rule = "of one input the rows may be handed over, and one region alone reads them"
            raise op.refuse(rule, f"`{value.name}`, region {fed.index(op)} of {len(fed)}")


def _arena_too_large_error(graph: Graph, memory: MemoryPlan) -> PillionError:
    return PillionError(
        f"`{graph.name}` needs more memory than a microcontroller can address",
        rule=f"arena and states have at most {LARGEST} bytes",
        here=f"{memory.arena_bytes + memory.state_bytes} bytes, the largest scratch {memory.scratch_bytes}",
        help="smaller images or batches",
    )
