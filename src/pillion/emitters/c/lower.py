# SPDX-License-Identifier: Apache-2.0
"""Lowers a graph to a C program: kernels, packed constants and the memory plan. Knows ops, but no C syntax."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
from numpy.typing import NDArray

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.actions import (
    Action,
    AwaitSegment,
    ProgramItem,
    RolledLoop,
    RunBranch,
    RunStep,
)
from pillion.emitters.c.branch_items import guards_of_plan, with_branches
from pillion.emitters.c.constant_copies import with_fetches
from pillion.emitters.c.kernel import Call, Routine
from pillion.emitters.c.kernel_choice import BYTE_PRICE, KernelChoice
from pillion.emitters.c.loop_rolling import roll_repetitions
from pillion.emitters.c.scan_calls import loaded_constants, repeat_items
from pillion.emitters.c.select_and_plan import KernelPlan, select_and_plan
from pillion.emitters.c.sliding_moves import sliding_buffer_moves
from pillion.emitters.c.stream_entry import StreamEntry, stream_entry
from pillion.emitters.c.tile_variants import OpVariants, RegionVariants
from pillion.ir.access import ROWS, row_bytes
from pillion.ir.graph import Graph, UniqueNames, c_identifier, shorten_name
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.state import State
from pillion.ir.types import Array, Value
from pillion.ir.workspace import Workspace
from pillion.memory import HOST_POINTER_BYTES, MemoryPlan, Needs, RepeatMemory
from pillion.memory.npu_calls import NpuCalls, resume_points
from pillion.ops import Region, Scan, Segment, flatten_ops
from pillion.option_values import Optimize

POINTER_BYTES = 4
"""The size of a pointer on every Cortex-M."""


@dataclass(frozen=True)
class Constant:
    """An array in flash with its C name."""

    name: str
    data: NDArray[np.generic]
    memory: tuple[int, str] | None = None
    """The number and name of the memory of the chip to which it is copied at start; None if it stays in flash."""

    @property
    def elements(self) -> int:
        """The declared length; at least 1, as C has no empty arrays."""
        return max(self.data.size, 1)

    @property
    def bytes(self) -> int:
        """The declared size."""
        return self.elements * self.data.itemsize


@dataclass(frozen=True)
class Variant:
    """One variant of an op: complete, or a tile of rows, perhaps at an edge of the image."""

    choice: KernelChoice
    calls: range
    """The indices of the variant's calls within the step."""
    values: tuple[Value, ...]
    """Operands and results, whose locations each run sets."""


@dataclass(frozen=True)
class CStep:
    """One op with its calls and the names of the constants that their params point to."""

    index: int
    choice: KernelChoice
    calls: tuple[Call, ...]
    pointers: tuple[Mapping[str, str], ...]
    """For each call: field of the params struct → name of a constant."""
    variants: tuple[Variant, ...]
    scratch_bytes: int


@dataclass(frozen=True)
class RowFeed:
    """An input that the caller passes row by row, outside the arena."""

    value: Value
    items: range
    """The items that run while rows arrive; earlier items run first."""
    place: int
    """The arena offset of the state between two calls."""
    has_state: bool
    """Whether the model has persistent state."""

    @property
    def progress(self) -> int:
        """The arena offset of the progress counters, behind the pointer to the persistent state if there is one."""
        return self.place + (HOST_POINTER_BYTES if self.has_state else 0)

    @property
    def rows(self) -> int:
        """The number of rows, over all images."""
        return self.value.shape[0] * self.value.shape[ROWS]

    @property
    def row_bytes(self) -> int:
        """The size of a row."""
        return row_bytes(self.value)


@dataclass(frozen=True)
class CProgram(KernelPlan):
    """A lowered program: a kernel plan with packed constants, from which the text of a C project is written."""

    steps: tuple[CStep, ...] = ()
    items: tuple[ProgramItem, ...] = ()
    """The actions of the program, in order."""
    constants: tuple[Constant, ...] = ()
    operands: Mapping[Value, str] = field(default_factory=dict)
    """Constant operands that are passed as arguments → name of their array."""
    initial_states: Mapping[str, str] = field(default_factory=dict)
    """State → name of the array with its initial value; other states are filled with one byte."""
    initial_sums: Mapping[Op, str] = field(default_factory=dict)
    """Op → name of the array with its initial running sums; others are filled with one number."""
    feed: RowFeed | None = None
    stream: StreamEntry | None = None
    """How a stream receives new frames."""

    @property
    def copied(self) -> tuple[frozenset[int], ...]:
        """The indices of operands and results, counted together, that must be copied, for each segment with a
        workspace."""
        segments = (op for op in self.graph.ops if isinstance(op, Segment))
        pairs = zip(segments, self.workspaces, strict=True) if self.workspaces else ()
        return tuple(self.memory.copied_tensors(op, workspace) for op, workspace in pairs)

    @property
    def copied_bytes(self) -> int:
        """The bytes that each inference copies between the arena and the segments' workspaces."""
        segments = [op for op in self.graph.ops if isinstance(op, Segment)]
        pairs = zip(segments, self.copied, strict=True) if self.copied else ()
        return sum((*op.activations, *op.results)[n].type.size_bytes for op, some in pairs for n in some)

    @property
    def routines(self) -> list[Routine]:
        """The kernels that the program calls, without repetition."""
        return list(dict.fromkeys(call.routine for step in self.steps for call in step.calls))

    def runs(self) -> Counter[int]:
        """Counts the runs of each step: once, or once per tile of a region. Steps in branches count as if both
        branches ran."""
        counts: Counter[int] = Counter()
        for item in self.items:
            _count_runs(item.what, 1, counts)
        return counts

    @property
    def constant_bytes(self) -> int:
        """The size of all arrays in flash, including arrays that are copied to a faster memory."""
        return sum(c.bytes for c in self.constants)

    @property
    def params_bytes(self) -> int:
        """The size of all params structs."""
        return sum(len(call.params) * POINTER_BYTES for step in self.steps for call in step.calls)


def _count_runs(what: Action, times: int, counts: Counter[int]) -> None:
    if isinstance(what, RunStep):
        counts[what.step] += times
    elif isinstance(what, (RolledLoop, RunBranch)):
        for part in what.body:
            _count_runs(part.what, times * (what.count if isinstance(what, RolledLoop) else 1), counts)


def sizes_of(constants: Iterable[Constant]) -> dict[str, int]:
    """Returns the bytes of arrays by name."""
    return {constant.name: constant.bytes for constant in constants}


LONGEST_IDENTIFIER = 58
"""C99 distinguishes identifiers by 63 characters; some are left for a number that keeps names unique."""


class _Constants:
    """Arrays by content: equal arrays are stored once, under a unique C identifier."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.names = UniqueNames()
        self.by_content: dict[tuple[str, bytes, tuple[int, str] | None], Constant] = {}

    def name(self, preferred: str, data: NDArray[np.generic], memory: tuple[int, str] | None = None) -> str:
        data = np.ascontiguousarray(data)
        data = data.view(np.uint8) if data.dtype == np.bool_ else data  # C99 has no literals for them
        # The hash is of the array's own bytes: no copy is made.
        key = (data.dtype.name, hashlib.sha256(data.reshape(-1).view(np.uint8).data).digest(), memory)
        if key not in self.by_content:
            clean = shorten_name(c_identifier(f"{self.prefix}_{preferred}"), LONGEST_IDENTIFIER)
            self.by_content[key] = Constant(self.names.fresh(clean), data, memory)
        return self.by_content[key].name


def lower(
    graph: Graph,
    isa: Isa = Isa.PORTABLE,
    optimize: Optimize = "speed",
    workspaces: tuple[Workspace, ...] = (),
    npu_calls: NpuCalls = NpuCalls.BLOCKING,
    byte_price: float = BYTE_PRICE,
) -> CProgram:
    """Lowers the graph: chooses a kernel for each op, packs constants and plans memory. Copies are added for
    states that cannot be updated in place. `workspaces` are the memory of NPU segments that work in the arena."""
    return pack_constants(select_and_plan(graph, isa, optimize, None, workspaces, npu_calls, byte_price))


def pack_constants(plan: KernelPlan) -> CProgram:
    """Returns the program of a kernel plan, with packed constants."""
    graph, regions, memory = plan.graph, plan.regions, plan.memory
    constants = _Constants(graph.name)
    steps: list[CStep] = []
    copied = memory.several.constants_in if memory.several else {}
    for op in graph.ops:
        for uses in regions[op].of_ops if op in regions else map(OpVariants, flatten_ops([op])):
            steps.append(_lower_step(len(steps), uses, plan.chosen, graph.arithmetic, constants, copied))
    arguments = [v for step in steps for call in step.calls for v in call.inputs if v.is_constant]
    loaded = [value for op in graph.ops for value in loaded_constants(op)]
    operands = {
        value: constants.name(f"value_{value.name}", _as_stored_in_flash(value.constant))
        for value in (*arguments, *loaded)
    }
    initial_states = {
        s.name: constants.name(f"state_{s.name}", s.initial)
        for s in graph.states
        if not is_filled_on_reset(s)
    }
    initial_sums = {
        sums.op: constants.name(f"sums_{sums.op.name}", sums.stored)
        for sums in plan.sums
        if not sums.is_uniform
    }
    writer = _ItemWriter(regions, plan.needs, dict(sliding_buffer_moves(plan.sliding, memory)), memory)
    firsts = dict(_ops_with_step_index(graph, plan.needs))
    items = [list(writer.items(op, first)) for op, first in firsts.items()]
    items = with_branches(plan, items, guards_of_plan(plan, writer.moves))
    if memory.several is not None and memory.several.streamed:
        pointers = {
            step.choice.op: step.pointers[0] for step in steps if step.choice.op in memory.several.streamed
        }
        items = list(
            with_fetches(
                graph, items, pointers, sizes_of(constants.by_content.values()), memory.several.streamed
            )
        )
    for segment, behind in resume_points(graph, plan.npu_calls) if plan.in_steps else ():
        items[behind - 1].append(writer.awaiting(segment, firsts[segment]))
    stream = stream_entry(graph, memory)
    of_plan = {f.name: getattr(plan, f.name) for f in fields(KernelPlan)}
    return CProgram(
        **{**of_plan, "memory": replace(memory, state_bytes=stream.end) if stream else memory},
        steps=tuple(steps),
        items=tuple(item for items_of_op in items for item in items_of_op),
        constants=tuple(constants.by_content.values()),
        operands=operands,
        initial_states=initial_states,
        initial_sums=initial_sums,
        feed=_find_row_feed(graph, [len(some) for some in items], memory),
        stream=stream,
    )


def is_filled_on_reset(state: State) -> bool:
    """Whether all bytes of a state's initial value are equal: a reset fills it instead of copying it from flash."""
    raw = np.ascontiguousarray(state.initial).tobytes()
    return raw == raw[:1] * len(raw)


def _as_stored_in_flash(data: Array) -> Array:
    """Returns the elements as stored in flash; booleans are bytes 0 and 1."""
    return data.view(np.int8) if data.dtype == np.bool_ else data


def _ops_with_step_index(graph: Graph, needs: Needs) -> Iterator[tuple[Op, int]]:
    """Yields each op with the index of its first step."""
    first = 0
    for op in graph.ops:
        yield op, first
        first += needs[op].steps


@dataclass(frozen=True)
class _ItemWriter:
    """The facts from which the items of an op follow."""

    regions: Mapping[Op, RegionVariants]
    needs: Needs
    moves: Mapping[Op, ProgramItem]
    memory: MemoryPlan

    def items(self, op: Op, first: int) -> Iterator[ProgramItem]:
        """Yields the items of an op, in order."""
        need = self.needs[op]
        if op in self.regions:
            yield from roll_repetitions(self.regions[op].items(first, self.memory))
        elif isinstance(op, Scan) and isinstance(need, RepeatMemory):
            yield from repeat_items(op, need, first, self.memory)
        else:
            yield from [self.moves[op]] if op in self.moves else []
            yield ProgramItem.at(RunStep(first), *map(self.memory.location, (*op.activations, *op.results)))

    def awaiting(self, op: Op, step: int) -> ProgramItem:
        """Returns the item that waits for a segment."""
        return ProgramItem.at(AwaitSegment(step), *map(self.memory.location, (*op.activations, *op.results)))


def _find_row_feed(graph: Graph, counts: Sequence[int], memory: MemoryPlan) -> RowFeed | None:
    """Returns the input that is passed row by row, if any; `counts` are the numbers of items for each op."""
    for number, region in enumerate(graph.ops):
        if isinstance(region, Region) and region.fed_value is not None:
            before = sum(counts[:number])
            items = range(before, before + counts[number])
            return RowFeed(region.fed_value, items, memory.scratch_offsets[region], bool(graph.states))
    return None


def _lower_step(
    index: int,
    uses: OpVariants,
    chosen: Mapping[Op, KernelChoice],
    arithmetic: Arithmetic,
    constants: _Constants,
    copied: Mapping[Op, tuple[int, str]],
) -> CStep:
    variants: list[Variant] = []
    calls: list[Call] = []
    for op in uses.variants:
        own_calls = chosen[op].kernel.calls(op, arithmetic)
        numbers = range(len(calls), len(calls) + len(own_calls))
        variants.append(Variant(chosen[op], numbers, (*op.activations, *op.results)))
        calls += own_calls
    pointers = []
    for number, call in enumerate(calls):
        suffix = f"_{number}" if len(calls) > 1 else ""
        arrays = {key: value for key, value in call.params.items() if isinstance(value, np.ndarray)}
        pointers.append(
            {
                key: constants.name(f"op{index}{suffix}_{key}", data, copied.get(uses.op))
                for key, data in arrays.items()
            }
        )
    default = chosen[uses.most_frequent]
    choice = KernelChoice(uses.op, default.kernel, default.passed_over)
    scratch = max(chosen[op].kernel.scratch_bytes(op) for op in uses.variants)
    return CStep(index, choice, tuple(calls), tuple(pointers), tuple(variants), scratch)
