# SPDX-License-Identifier: Apache-2.0
"""The memory plan: offsets of all activations and scratch buffers in one arena.

The *floor* is the largest sum of live bytes: no plan without in-place results is smaller; with stripes, none at
all. Blocks are placed first fit in several orders, then in random ones, until the floor is reached or the tries
are used up. Graphs with hundreds of live values get fewer tries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.state import State
from pillion.ir.types import Value
from pillion.ir.workspace import Workspace
from pillion.memory.byte_liveness import LiveExtent, extent_at_ticks, least_distance
from pillion.memory.divided_memory import DividedMemory, MemoryRequest, SeveralMemories, UsedMemory
from pillion.memory.events import ALIGNMENT, align_up
from pillion.memory.first_fit import PlanningEffort, place_blocks
from pillion.memory.live_blocks import LiveBlock, least_bytes, live_bytes
from pillion.memory.npu_workspace import CACHE_LINE, guard_bytes, place_in_npu_workspace
from pillion.memory.op_memory import Needs, OpMemory, RegionMemory, RepeatMemory
from pillion.memory.scan_memory import LoopBlocks, add_loop_blocks, add_result_blocks, overlay_result
from pillion.memory.sliding_buffers import merge_sliding_blocks
from pillion.memory.state_layout import ARENA, STATE, Area, MemoryLocation, layout_states, place_new_states


@dataclass(frozen=True, eq=False)
class ArenaResident:
    """Bytes of the arena that belong, from op `first` to op `last`, to values or to an op's scratch."""

    offset: int
    bytes: int
    first: int
    last: int
    values: tuple[Value, ...] = ()
    """The values; several if they are reshapes of each other."""
    scratch_of: Op | None = None
    constants_of: Op | None = None
    """The op for which constants are copied to these bytes in time."""
    area: Area = ARENA

    @property
    def name(self) -> str:
        """The name of the content, for people."""
        if self.scratch_of is not None:
            return f"scratch of {self.scratch_of.name}"
        if self.constants_of is not None:
            return f"constants of {self.constants_of.name}"
        return ", ".join(value.name for value in self.values)


@dataclass(frozen=True)
class MemoryPlan:
    """The offsets of all buffers in the arena, or in several."""

    offsets: Mapping[Value, int]
    scratch_offsets: Mapping[Op, int]
    arena_bytes: int
    activation_bytes: int
    """The size of the arena without scratch."""
    floor_bytes: int
    """The lower bound for activations; in-place results may make the plan smaller than the largest sum of live
    bytes."""
    scratch_bytes: int
    """The largest scratch of any op."""
    live_bytes: tuple[int, ...] = field(default=())
    """Bytes of live activations during each op."""
    residents: tuple[ArenaResident, ...] = field(default=())
    """All buffers with their offsets and live ranges."""
    state_offsets: Mapping[Value, int] = field(default_factory=dict)
    """The offsets of values that lie among the states."""
    state_bytes: int = 0
    """Bytes of states, outside the arena."""
    kept_scratch: Mapping[Op, int] = field(default_factory=dict)
    """Scratch that lives between runs: its offset behind the states."""
    alignment: int = ALIGNMENT
    """The alignment of the arena in bytes."""
    areas: Mapping[Value | Op, Area] = field(default_factory=dict)
    """The areas of values, and of ops' scratch, that do not lie in the arena."""
    several: SeveralMemories | None = None
    """How the program is divided among the memories of the chip; `arena_bytes` are then those of all arenas."""

    @property
    def arenas(self) -> tuple[UsedMemory, ...]:
        """The memories that hold buffers, if there are several; otherwise none."""
        return self.several.arenas if self.several and len(self.several.arenas) > 1 else ()

    def copied_tensors(self, op: Op, workspace: Workspace) -> frozenset[int]:
        """Returns the operands and results of an op that do not lie at their offsets in its workspace, and are
        copied."""
        offsets = (*workspace.inputs, *workspace.outputs)
        values = zip((*op.activations, *op.results), offsets, strict=True)
        base = self.scratch_location(op)
        assert base is not None
        return frozenset(
            n
            for n, (value, at) in enumerate(values)
            if self.location(value) != replace(base, offset=base.offset + at)
        )

    def scratch_location(self, op: Op) -> MemoryLocation | None:
        """Returns the location of an op's scratch, if it has any."""
        if op in self.kept_scratch:
            return MemoryLocation(self.kept_scratch[op], STATE)
        area = self.areas.get(op, ARENA)
        return MemoryLocation(self.scratch_offsets[op], area) if op in self.scratch_offsets else None

    def location(self, value: Value, behind: int = 0) -> MemoryLocation:
        """Returns the location of a value, or of the byte `behind` its beginning."""
        if value in self.state_offsets:
            return MemoryLocation(self.state_offsets[value] + behind, STATE)
        return MemoryLocation(self.offsets[value] + behind, self.areas.get(value, ARENA))


def plan_memory(
    graph: Graph,
    needs: Needs,
    effort: PlanningEffort = PlanningEffort.USUAL,
    request: MemoryRequest | None = None,
) -> MemoryPlan:
    """Plans the memory of a graph: one arena, or one in each memory of a request. With the largest effort, activations
    alone get as many tries as the whole arena."""
    clock = _OpTicks(graph, needs)
    blocks, shifts, scratch = _activation_blocks(graph, needs, clock)
    state_offsets, state_bytes = layout_states(blocks, shifts)
    blocks = {value: block for value, block in blocks.items() if not block.is_state}
    unique = list(dict.fromkeys(blocks.values()))
    live = live_bytes(unique, clock.ticks)
    floor = least_bytes(unique, clock.ticks)
    scratch |= _scratch_blocks(graph, needs, clock)
    is_striped = any(block.extent is not None for block in unique)
    is_beside = is_striped and scratch and effort is not PlanningEffort.MOST
    activation_bytes = place_blocks(unique, floor, PlanningEffort.ORDERS if is_beside else effort)
    everything = [*unique, *scratch.values()]
    place_in_npu_workspace(graph, needs, blocks, scratch, shifts)
    alignment = CACHE_LINE if any(need.workspace for need in needs.values()) else ALIGNMENT
    several, areas, copied = None, dict[LiveBlock, Area](), dict[Op, LiveBlock]()
    if request is None:
        least = least_bytes(everything, clock.ticks)
        arena_bytes = place_blocks(everything, least, effort) if scratch else activation_bytes
        arena_bytes = max([arena_bytes, *(b.offset + b.size + b.overread_bytes for b in unique)])
    else:
        divided = DividedMemory(
            graph, needs, blocks, scratch, request, clock.ticks, alignment, clock.spans(graph)
        )
        several, areas, copied = divided.place(effort)
        arena_bytes = sum(used.arena_bytes for used in several.used)
    return MemoryPlan(
        offsets={value: block.offset + shifts.get(value, 0) for value, block in blocks.items()},
        scratch_offsets={op: block.offset + guard_bytes(needs, op) for op, block in scratch.items()},
        arena_bytes=-(-arena_bytes // alignment) * alignment,
        alignment=alignment,
        activation_bytes=min(activation_bytes, arena_bytes),
        floor_bytes=min(floor, activation_bytes, arena_bytes),
        scratch_bytes=max((b.size for b in scratch.values()), default=0),
        live_bytes=tuple(
            max((live[t] for t in ticks), default=0) for ticks in clock.ticks_of_ops(graph, needs)
        ),
        residents=tuple(_arena_residents(blocks, scratch, copied, clock, areas)),
        state_offsets=state_offsets,
        state_bytes=state_bytes,
        areas={
            **{value: areas[block] for value, block in blocks.items() if block in areas},
            **{op: areas[block] for op, block in scratch.items() if block in areas},
        },
        several=several,
    )


def _arena_residents(
    blocks: Mapping[Value, LiveBlock],
    scratch: Mapping[Op, LiveBlock],
    copied: Mapping[Op, LiveBlock],
    clock: _OpTicks,
    areas: Mapping[LiveBlock, Area],
) -> Iterator[ArenaResident]:
    """Yields activations (outputs live until the end), scratch, and buffers for constants."""
    by_block: dict[LiveBlock, list[Value]] = {}
    for value, block in blocks.items():
        by_block.setdefault(block, []).append(value)
    for b, values in by_block.items():
        area = areas.get(b, ARENA)
        yield ArenaResident(b.offset, b.size, *clock.op_range(b), values=tuple(values), area=area)
    for op, b in scratch.items():
        area = areas.get(b, ARENA)
        yield ArenaResident(b.offset, b.size, *clock.op_range(b), scratch_of=op, area=area)
    for op, b in copied.items():
        area = areas.get(b, ARENA)
        yield ArenaResident(b.offset, b.size, *clock.op_range(b), constants_of=op, area=area)


class _OpTicks:
    """The ticks of every op of a graph."""

    def __init__(self, graph: Graph, needs: Needs) -> None:
        self.begin: list[int] = []
        self.end: list[int] = []
        self.ticks = 0
        self.numbers: list[tuple[int, int]] = []
        """For each tick, the first and the last op that may run; the ops of a region take turns."""
        running: dict[int, int] = {}
        """The last op that runs while the NPU runs a segment → the segment."""
        for op in graph.ops:
            need = needs[op]
            first = self.numbers[-1][1] + 1 if self.numbers else 0
            self.begin.append(self.ticks)
            self.ticks += need.ticks
            self.end.append(self.ticks - 1)
            if isinstance(need, RepeatMemory):
                self.numbers += need.steps_of_ticks(first)
            else:
                self.numbers += [(first, first + need.steps - 1)] * need.ticks
            if isinstance(need, OpMemory) and need.overlapped:
                running[len(self.begin) - 1 + need.overlapped] = len(self.begin) - 1
            self._wait_for(running.pop(len(self.begin) - 1, None))

    def _wait_for(self, segment: int | None) -> None:
        """Adds the tick in which the core waits for a segment: until then its memory is live. No op of the core has
        this tick, and none overwrites an operand that the NPU still reads."""
        if segment is not None:
            self.end[segment] = self.ticks
            self.ticks += 1
            self.numbers.append((self.numbers[-1][1],) * 2)

    def spans(self, graph: Graph) -> dict[Op, tuple[int, int]]:
        """Returns the first and the last tick of each op."""
        return dict(zip(graph.ops, zip(self.begin, self.end, strict=True), strict=True))

    def op_range(self, block: LiveBlock) -> tuple[int, int]:
        """Returns the first and the last op, inner ones counted, between which a block is live."""
        if not self.numbers:
            return 0, 0
        last = min(block.last, self.ticks - 1)
        return self.numbers[min(block.first, last)][0], self.numbers[last][1]

    def ticks_of_ops(self, graph: Graph, needs: Needs) -> Iterator[Iterable[int]]:
        """Yields the ticks of every op, inner ones included."""
        for i, op in enumerate(graph.ops):
            need = needs[op]
            ticks = range(self.begin[i], self.begin[i] + need.ticks)
            if isinstance(need, RepeatMemory):
                yield from need.ticks_of_steps(self.begin[i])
            elif not isinstance(need, RegionMemory):
                yield ticks
            else:
                for number in range(len(need.ops)):
                    yield [self.begin[i] + event for event in need.schedule.run_events(number)]


Shifts = dict[Value, int]
"""The offset of values inside their block, if it is not 0."""


def states_to_copy(graph: Graph, needs: Needs) -> tuple[State, ...]:
    """Returns the states whose new value cannot be computed in place and must be copied."""
    blocks, *_ = _activation_blocks(graph, needs, _OpTicks(graph, needs))
    return tuple(s for s in graph.states if blocks.get(s.after) is not blocks[s.before])


def _activation_blocks(
    graph: Graph, needs: Needs, clock: _OpTicks
) -> tuple[dict[Value, LiveBlock], Shifts, dict[Op, LiveBlock]]:
    """Returns a block per value, shared by reshapes, and the scratch blocks inside loops."""
    fed = {need.schedule.fed for need in needs.values() if isinstance(need, RegionMemory)}
    blocks: dict[Value, LiveBlock] = {
        v: LiveBlock(align_up(v.type.size_bytes), 0, 0) for v in graph.inputs if v not in fed
    }
    states = (state.before for state in graph.states)
    blocks |= {v: LiveBlock(align_up(v.type.size_bytes), 0, -1, is_state=True) for v in states}
    shifts: Shifts = {}
    inside = LoopBlocks(blocks, shifts)
    for i, op in enumerate(graph.ops):
        begin, end = clock.begin[i], clock.end[i]
        for value in op.activations:
            if value in blocks:
                blocks[value].last = max(blocks[value].last, end)
        add_result_blocks(op, begin, end, {}, inside)
        for value in op.results:
            blocks[value].last = max(blocks[value].last, end)
        need = needs[op]
        if isinstance(need, RegionMemory):
            blocks |= _region_buffer_blocks(need, begin)
        if isinstance(need, RepeatMemory):
            add_loop_blocks(need, begin, inside)
    merge_sliding_blocks(graph, blocks, shifts)
    place_new_states(graph, needs, blocks)
    for value in graph.sinks:
        if not value.is_constant:
            blocks[value].last = clock.ticks
    _record_region_extents(graph, needs, blocks, clock, shifts)
    _allow_in_place(graph, needs, blocks, clock, shifts)
    return blocks, shifts, inside.scratch


def _record_region_extents(
    graph: Graph, needs: Needs, blocks: Mapping[Value, LiveBlock], clock: _OpTicks, shifts: Shifts
) -> None:
    """Notes the byte liveness of operands and results of regions: consumed rows are free, and so are rows not yet
    computed."""
    values = Counter(blocks.values())
    parts: dict[LiveBlock, list[tuple[int, LiveExtent]]] = {}
    for i, op in enumerate(graph.ops):
        need = needs[op]
        if not isinstance(need, RegionMemory):
            continue
        begin, end = clock.begin[i], clock.end[i]
        border = [v for v in op.activations if v in blocks and blocks[v].last == end]
        seen = {v: need.schedule.consumed_operand_extent(v) for v in border if v is not need.schedule.fed}
        seen |= {v: need.schedule.result_extent(v) for v in op.results if blocks[v].first == begin}
        for value, extent in seen.items():
            block = blocks[value]
            is_its_own = values[block] == 1 and block.size == align_up(value.type.size_bytes)
            if is_its_own and not block.is_state and not shifts.get(value):
                parts.setdefault(block, []).append((begin, extent))
        _reserve_before_operand(op, blocks, seen)
    for block, known in parts.items():
        block.extent = _whole_block_extent(block, known)


def _reserve_before_operand(
    op: Op, blocks: Mapping[Value, LiveBlock], seen: Mapping[Value, LiveExtent]
) -> None:
    """Reserves bytes before a consumed operand, if the result is larger and begins earlier."""
    for x in op.activations:
        for y in op.results:
            far = least_distance(y.type.size_bytes, seen[y], seen[x]) if x in seen and y in seen else None
            if far is not None and 0 < far < y.type.size_bytes:
                blocks[x].space_before = max(blocks[x].space_before, align_up(far))


def _whole_block_extent(block: LiveBlock, parts: Sequence[tuple[int, LiveExtent]]) -> LiveExtent:
    """Returns the extent of a block over its whole live range; without further knowledge all of it is live."""
    ticks = block.last - block.first + 1
    low, high = np.zeros(ticks, np.int64), np.full(ticks, block.size, np.int64)
    for begin, extent in parts:
        at = begin - block.first
        low[at : at + len(extent.low)], high[at : at + len(extent.low)] = extent.low, extent.high
    return LiveExtent(low, high)


def _region_buffer_blocks(need: RegionMemory, begin: int) -> dict[Value, LiveBlock]:
    """Returns a block per buffer of a region. An op that consumes an operand may place its result there, if its
    kernel allows."""
    overread = need.overread_bytes
    blocks = {
        buffer.value: _region_block(align_up(buffer.bytes), begin, buffer.extent, overread)
        for buffer in need.schedule.buffers
    }
    storage = need.schedule.storage
    for number, used_up in need.schedule.used_up.items():
        result = blocks.get(need.schedule.results[number])
        for value in need.ops[number].in_place if result else ():
            operand = blocks.get(storage[value])
            if (
                value in used_up
                and operand
                and result
                and not result.overlaid
                and result.size <= operand.size
            ):
                result.overlaid = operand
    return blocks


def _region_block(size: int, begin: int, extent: LiveExtent, overread: int = 0) -> LiveBlock:
    """Returns a block of a region that begins at a tick, with the liveness of its extent."""
    first, last = extent.first, extent.last
    return LiveBlock(
        size, begin + first, begin + last, overread_bytes=overread, extent=extent.window(first, last)
    )


def _scratch_blocks(graph: Graph, needs: Needs, clock: _OpTicks) -> Iterator[tuple[Op, LiveBlock]]:
    for i, op in enumerate(graph.ops):
        need, begin = needs[op], clock.begin[i]
        if isinstance(need, OpMemory) and need.scratch_bytes:
            size = align_up(need.scratch_bytes) + 2 * need.guard_bytes
            yield op, LiveBlock(size, begin, clock.end[i])
        if not isinstance(need, RegionMemory):
            continue
        progress = need.state_bytes(bool(graph.states))
        if progress:
            yield op, LiveBlock(align_up(progress), 0, clock.end[i])
        for number, inner in enumerate(need.ops):
            if inner.scratch_bytes:
                size = align_up(inner.scratch_bytes)
                used = {tick: align_up(at) for tick, at in need.scratch_at(number).items()}
                extent = extent_at_ticks(used, need.ticks)
                yield need.schedule.body.ops[number], _region_block(size, begin, extent)


def _allow_in_place(
    graph: Graph, needs: Needs, blocks: dict[Value, LiveBlock], clock: _OpTicks, shifts: Shifts
) -> None:
    """Lets results overwrite operands that no later op reads."""
    inside = LoopBlocks(blocks, shifts)
    for op, begin, end in zip(graph.ops, clock.begin, clock.end, strict=True):
        overlay_result(op, needs[op], begin, end, inside)
