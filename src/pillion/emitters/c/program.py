# SPDX-License-Identifier: Apache-2.0
"""A graph made ready for C: kernels chosen, constants packed, memory planned. Knows ops; knows nothing of C's text."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from pillion.boards.board import Optimize
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.arrange import Arranged, arrange
from pillion.emitters.c.choose import Choice
from pillion.emitters.c.cuts import Cuts, Uses
from pillion.emitters.c.hop import HopFeed, hop_feed
from pillion.emitters.c.joints import moves_of
from pillion.emitters.c.kept_sums import KeptSums
from pillion.emitters.c.kernel import Call, Routine
from pillion.emitters.c.loops import Fire, Item, Loop, What, roll
from pillion.emitters.c.repeats import loaded, repeat_items
from pillion.ir.graph import Graph, Names, identifier, shortened
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.rows import ROWS, row_bytes
from pillion.ir.state import State
from pillion.ir.types import Array, Value
from pillion.ir.workspace import Workspace
from pillion.memory import (
    HOST_POINTER_BYTES,
    MemoryPlan,
    Needs,
    RepeatMemory,
    words_of_state,
)
from pillion.ops import Region, Repeat, Segment, leaves

POINTER_BYTES = 4
"""Bytes of a pointer on all Cortex-M."""


@dataclass(frozen=True)
class Constant:
    """An array in flash, with its name in C."""

    name: str
    data: NDArray[np.generic]

    @property
    def elements(self) -> int:
        """The length that is declared in C, which has no empty arrays."""
        return max(self.data.size, 1)


@dataclass(frozen=True)
class Variant:
    """One form in which an op is run: whole, or for so many rows at some border of the image."""

    choice: Choice
    calls: range
    """The numbers of its calls among those of the step."""
    values: tuple[Value, ...]
    """Operands and results, which are given a place each time that it runs."""


@dataclass(frozen=True)
class Step:
    """One op with its calls, and the names of the constants that their params point to."""

    index: int
    choice: Choice
    calls: tuple[Call, ...]
    pointers: tuple[Mapping[str, str], ...]
    """The names of constants by field of the params, for each call."""
    variants: tuple[Variant, ...]
    scratch_bytes: int


@dataclass(frozen=True)
class RowFeed:
    """An input that is handed over row by row, outside the arena."""

    value: Value
    items: range
    """The things that the program does while rows come; what is before them is done before the first row."""
    place: int
    """The place in the arena of what is known between two calls."""
    has_state: bool
    """Whether the model remembers something from run to run."""

    @property
    def progress(self) -> int:
        """The place in the arena that says how far the program is: behind a pointer to the states, if there are some."""
        return self.place + (HOST_POINTER_BYTES if self.has_state else 0)

    @property
    def rows(self) -> int:
        """How many rows there are: those of all images."""
        return self.value.shape[0] * self.value.shape[ROWS]

    @property
    def row_bytes(self) -> int:
        """The bytes of a row."""
        return row_bytes(self.value)

    @property
    def loops(self) -> int:
        """How many loops may be around what waits for rows."""
        return words_of_state(self.rows) - words_of_state(0)


@dataclass(frozen=True)
class CProgram:
    """A program from which the text of a C project is made: steps, constants and the memory plan."""

    graph: Graph
    isa: Isa
    steps: tuple[Step, ...]
    items: tuple[Item, ...]
    """What is done, in order."""
    constants: tuple[Constant, ...]
    operands: Mapping[Value, str]
    """Constant operands that are passed as arguments → name of their array."""
    memory: MemoryPlan
    optimize: Optimize = "speed"
    begins: Mapping[str, str] = field(default_factory=dict)
    """State → name of the array that it is a copy of after a reset; the others are filled with one byte."""
    sums: tuple[KeptSums, ...] = ()
    """Sums that live between runs, behind the states."""
    sums_begin: Mapping[Op, str] = field(default_factory=dict)
    """Op → name of the array that its sums are a copy of after a reset; others are filled with one number."""
    feed: RowFeed | None = None
    hop: HopFeed | None = None
    """How it is handed new frames, if it is a stream."""
    workspaces: tuple[Workspace, ...] = ()
    """What each segment works in, where that is part of the arena."""

    @property
    def copied(self) -> tuple[frozenset[int], ...]:
        """Gives for each segment with a workspace which operands and results, counted together, have to be copied."""
        segments = (op for op in self.graph.ops if isinstance(op, Segment))
        pairs = zip(segments, self.workspaces, strict=True) if self.workspaces else ()
        return tuple(self.memory.apart(op, one) for op, one in pairs)

    @property
    def copied_bytes(self) -> int:
        """The bytes that are copied between the arena and the segments' places, in each run."""
        segments = [op for op in self.graph.ops if isinstance(op, Segment)]
        pairs = zip(segments, self.copied, strict=True) if self.copied else ()
        return sum((*op.activations, *op.results)[n].type.size_bytes for op, some in pairs for n in some)

    @property
    def routines(self) -> list[Routine]:
        """The kernels that the program calls, each once."""
        return list(dict.fromkeys(call.routine for step in self.steps for call in step.calls))

    def runs(self) -> Counter[int]:
        """Counts how often each step runs: once, or in a region for some rows at a time."""
        counts: Counter[int] = Counter()
        for item in self.items:
            _count_runs(item.what, 1, counts)
        return counts

    @property
    def constant_bytes(self) -> int:
        """The bytes of all arrays in flash."""
        return sum(c.elements * c.data.itemsize for c in self.constants)

    @property
    def params_bytes(self) -> int:
        """The bytes of all params structs: every field of the kernels is a 32-bit number or a pointer, or a double."""
        return sum(_params_size(call) for step in self.steps for call in step.calls)


def _count_runs(what: What, times: int, counts: Counter[int]) -> None:
    if isinstance(what, Fire):
        counts[what.step] += times
    elif isinstance(what, Loop):
        for part in what.body:
            _count_runs(part.what, times * what.count, counts)


def _params_size(call: Call) -> int:
    return len(call.params) * POINTER_BYTES


LONGEST_IDENTIFIER = 58
"""C99 tells names apart by 63 characters, of which a number that tells equal ones apart takes some."""


class _Constants:
    """Arrays by content: equal ones are stored once, under a name that C can hold and that no other has."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.names = Names()
        self.by_content: dict[tuple[str, bytes], Constant] = {}

    def name(self, wish: str, data: NDArray[np.generic]) -> str:
        data = np.ascontiguousarray(data)
        data = data.view(np.uint8) if data.dtype == np.bool_ else data  # C99 has no words for these
        # The hash is of the array's own bytes: no copy is made.
        key = (data.dtype.name, hashlib.sha256(data.reshape(-1).view(np.uint8).data).digest())
        if key not in self.by_content:
            clean = shortened(identifier(f"{self.prefix}_{wish}"), LONGEST_IDENTIFIER)
            self.by_content[key] = Constant(self.names.fresh(clean), data)
        return self.by_content[key].name


def lower(
    graph: Graph,
    isa: Isa = Isa.PORTABLE,
    optimize: Optimize = "speed",
    workspaces: tuple[Workspace, ...] = (),
) -> CProgram:
    """Gives the graph a kernel for each op, packed constants and a memory plan. Copies of what states become are added where it cannot
    be made in their places. `workspaces` are what its segments work in, where that is part of the arena."""
    return packed(arrange(graph, isa, optimize, workspaces=workspaces))


def packed(found: Arranged) -> CProgram:
    """Gives the program of a graph of which it is known which kernels run and where buffers lie."""
    graph, regions, chosen, needs, memory = (
        found.graph,
        found.regions,
        found.chosen,
        found.needs,
        found.memory,
    )
    constants = _Constants(graph.name)
    steps: list[Step] = []
    for op in graph.ops:
        for uses in regions[op].of_ops if op in regions else map(Uses, leaves([op])):
            steps.append(_step(len(steps), uses, chosen, graph.arithmetic, constants))
    operands = {
        value: constants.name(f"value_{value.name}", _stored(value.constant))
        for step in steps
        for call in step.calls
        for value in call.inputs
        if value.is_constant
    }
    operands |= {
        value: constants.name(f"value_{value.name}", value.constant)
        for op in graph.ops
        for value in loaded(op)
    }
    begins = {s.name: constants.name(f"state_{s.name}", s.initial) for s in graph.states if not is_even(s)}
    sums_begin = {
        one.op: constants.name(f"sums_{one.op.name}", one.stored) for one in found.sums if not one.is_even
    }
    done_by = _Doing(regions, needs, dict(moves_of(found.joints, memory)), memory)
    items = tuple(tuple(done_by.items(op, first)) for op, first in _numbered(graph, needs))
    feed = _feed(graph, [len(some) for some in items], memory)
    hop = hop_feed(graph, memory)
    memory = replace(memory, state_bytes=hop.end) if hop else memory
    done = tuple(item for items_of_op in items for item in items_of_op)
    arrays = tuple(constants.by_content.values())
    return CProgram(
        graph,
        found.isa,
        tuple(steps),
        done,
        arrays,
        operands,
        memory,
        found.optimize,
        begins,
        found.sums,
        sums_begin,
        feed,
        hop,
        found.workspaces,
    )


def is_even(state: State) -> bool:
    """Whether all bytes of a state are the same after a reset: they are filled in, not copied from flash."""
    raw = np.ascontiguousarray(state.initial).tobytes()
    return raw == raw[:1] * len(raw)


def _stored(data: Array) -> Array:
    """The elements as they lie in flash: booleans are bytes of 0 and 1."""
    return data.view(np.int8) if data.dtype == np.bool_ else data


def _numbered(graph: Graph, needs: Needs) -> Iterator[tuple[Op, int]]:
    """Each op with the number of its first step."""
    first = 0
    for op in graph.ops:
        yield op, first
        first += needs[op].steps


@dataclass(frozen=True)
class _Doing:
    """What is known of how ops are done."""

    regions: Mapping[Op, Cuts]
    needs: Needs
    moves: Mapping[Op, Item]
    memory: MemoryPlan

    def items(self, op: Op, first: int) -> Iterator[Item]:
        """What the program does for an op, in order."""
        need = self.needs[op]
        if op in self.regions:
            yield from roll(self.regions[op].items(first, self.memory))
        elif isinstance(op, Repeat) and isinstance(need, RepeatMemory):
            yield from repeat_items(op, need, first, self.memory)
        else:
            yield from [self.moves[op]] if op in self.moves else []
            yield Item(Fire(first), tuple(map(self.memory.spot, (*op.activations, *op.results))))


def _feed(graph: Graph, counts: Sequence[int], memory: MemoryPlan) -> RowFeed | None:
    """What is handed over row by row. `counts` says how many things the program does for each op."""
    for number, region in enumerate(graph.ops):
        if isinstance(region, Region) and region.fed_value is not None:
            before = sum(counts[:number])
            items = range(before, before + counts[number])
            return RowFeed(region.fed_value, items, memory.scratch_offsets[region], bool(graph.states))
    return None


def _step(
    index: int, uses: Uses, chosen: Mapping[Op, Choice], arithmetic: Arithmetic, constants: _Constants
) -> Step:
    variants: list[Variant] = []
    calls: list[Call] = []
    for form in uses.forms:
        made = chosen[form].kernel.calls(form, arithmetic)
        numbers = range(len(calls), len(calls) + len(made))
        variants.append(Variant(chosen[form], numbers, (*form.activations, *form.results)))
        calls += made
    pointers = []
    for number, call in enumerate(calls):
        suffix = f"_{number}" if len(calls) > 1 else ""
        arrays = {key: value for key, value in call.params.items() if isinstance(value, np.ndarray)}
        pointers.append(
            {key: constants.name(f"op{index}{suffix}_{key}", data) for key, data in arrays.items()}
        )
    usual = chosen[uses.usual]
    choice = Choice(uses.op, usual.kernel, usual.passed_over)
    scratch = max(chosen[form].kernel.scratch_bytes(form) for form in uses.forms)
    return Step(index, choice, tuple(calls), tuple(pointers), tuple(variants), scratch)
