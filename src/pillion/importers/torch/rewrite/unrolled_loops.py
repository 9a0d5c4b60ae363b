# SPDX-License-Identifier: Apache-2.0
"""Finds unrolled loops: repeated calls on consecutive parts of a sequence and on the previous step's results.

Candidates are pairs of equal calls, one of which depends on the other. The chain of all such calls is compared
backwards, operand by operand, in all steps at once. The operands of all steps form a row, which must be one of

    the same      one tensor in all steps: weights, loop invariants
    an element    slices of one tensor at equal distances
    carried       a row of the loop, one step earlier, with another initial value
    computed      calls of one operator with equal arguments, whose operands are such rows

If only the first steps differ, the loop begins after them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from torch.fx import Graph, Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.loop_nodes import LOOP_ARGUMENT
from pillion.importers.torch.rewrite.functionalize import is_write
from pillion.importers.torch.rewrite.structural_hash import (
    CallSequence,
    ValueNumbering,
    call_signature,
    operands_of,
)

Row = tuple[Node, ...]
"""Corresponding nodes of all steps."""

FEWEST_STEPS = 3
"""Minimum steps of a loop."""
FEWEST_PLAIN_STEPS = 8
"""Minimum steps of a loop without weights, whose copies are cheap."""
LAYERS = {*fx.CONVOLUTIONS, *fx.torch_operators("linear addmm mm bmm baddbmm")}
MOST_CANDIDATES = 12
"""Maximum earlier calls tried as the previous step's result."""
MOST_TRIMS = 16
"""Maximum retries of a chain without its differing steps."""
MOST_TAKEN = 64
"""Maximum elements of a sequence that a step may read if it reads more or less than its stride."""


class StepsDiffer(Exception):
    """Raised if the steps up to `last` differ from the steps after it; if `last` is the last step, all differ."""

    def __init__(self, last: int) -> None:
        super().__init__(last)
        self.last = last


@dataclass(frozen=True)
class StepSlice:
    """Slice of consecutive elements along an axis."""

    source: Node
    axis: int
    first: int
    size: int


@dataclass(frozen=True)
class StepElement:
    """How steps read a sequence: `size` elements along an axis, from `first` on, advancing by `stride`."""

    source: Node
    axis: int
    first: int
    stride: int
    size: int


@dataclass
class UnrolledSteps:
    """A loop that was found: its rows by kind."""

    count: int
    rows: list[Row] = field(default_factory=list)
    """Computed rows, in no order."""
    elements: dict[Row, StepElement] = field(default_factory=dict)
    carried: dict[Row, Row] = field(default_factory=dict)
    """Carried rows, and the row that each carries."""
    same: dict[Node, None] = field(default_factory=dict)
    place: dict[Node, tuple[Row, int]] = field(default_factory=dict)
    """Row and step of each computed node."""

    def copy(self) -> UnrolledSteps:
        """Returns a copy for trial matches."""
        held: Any = (self.rows, self.elements, self.carried, self.same, self.place)
        return UnrolledSteps(self.count, *map(copy, held))


def find_steps(graph: Graph, kept: Collection[Any] = ()) -> UnrolledSteps | None:
    """Returns the last loop of a graph without `kept` operators; None if there is none. Rewrite it before
    searching again."""
    numbers = ValueNumbering(graph)
    rhythm = CallSequence(graph, numbers)
    for node, candidates in rhythm.repeated(MOST_CANDIDATES):
        steps = _loop_ending_at(node, candidates, numbers, kept)
        if steps is not None:
            return steps
    return None


def _loop_ending_at(
    last: Node, candidates: Iterable[Node], numbers: ValueNumbering, unrolled: Collection[Any]
) -> UnrolledSteps | None:
    """Returns the loop whose last step returns `last`."""
    for before in candidates:
        path = Matcher((before, last), numbers).path()
        chain = _step_chain(before, last, path) if path is not None else []
        steps = _loop_of_chain(chain, numbers)
        if steps is not None and _is_worth_while(steps, unrolled):
            return steps
    return None


def _loop_of_chain(chain: list[Node], numbers: ValueNumbering) -> UnrolledSteps | None:
    """Returns the loop whose steps return the nodes of a chain or of its end."""
    for _ in range(MOST_TRIMS):
        if len(chain) < FEWEST_STEPS:
            return None
        matcher = Matcher(tuple(chain), numbers)
        try:
            matcher.match(matcher.chain)
        except StepsDiffer as differs:
            chain = chain[differs.last + 1 :]
        else:
            return matcher.extended()
    return None


def _step_chain(before: Node, last: Node, path: list[int]) -> list[Node]:
    """Returns the results of all steps, by following the operand positions of `path` from each step to the previous
    one."""
    chain, expected = [last, before], call_signature(last)
    while True:
        node: Node | None = chain[-1]
        for position in path:
            operands = operands_of(node) if node is not None else []
            node = operands[position] if position < len(operands) else None
        if node is None or node.op != "call_function" or call_signature(node) != expected:
            return chain[::-1]
        chain.append(node)


def _is_worth_while(steps: UnrolledSteps, unrolled: Collection[Any]) -> bool:
    """Whether a step has weights, or there are many steps over a sequence."""
    if any(row[0].target in unrolled for row in steps.rows):
        return False
    if any(row[0].target in LAYERS for row in steps.rows):
        return True
    return steps.count >= FEWEST_PLAIN_STEPS and bool(steps.elements)


class Matcher:
    """Compares the steps of a chain backwards from their results."""

    def __init__(self, chain: Row, numbers: ValueNumbering) -> None:
        self.chain, self.numbers = chain, numbers
        self.steps = UnrolledSteps(len(chain))
        self._reached: dict[Row, tuple[Row, int] | None] = {}
        """Reader and operand position through which each row was reached."""

    def match(self, row: Row) -> None:
        """Classifies a row and everything upstream. Raises `StepsDiffer` if a row matches no kind."""
        waiting: deque[tuple[Row, tuple[Row, int] | None]] = deque([(row, None)])
        while waiting:  # the nearest first: chains that are no loop end soon
            current, reader = waiting.popleft()
            if current in self._reached:
                continue
            self._reached[current] = reader
            if self._classify_row(current) == "computed":
                operands = zip(*map(operands_of, current), strict=True)
                waiting.extend((tuple(o), (current, i)) for i, o in enumerate(operands))

    def _classify_row(self, row: Row) -> str:
        steps, previous, last = self.steps, row[-2], row[-1]
        if self.numbers[previous] == self.numbers[last]:
            self._require_for_all_steps(row, lambda k: self.numbers[row[k]] == self.numbers[last])
            steps.same[last] = None
            return "same"
        location = steps.place.get(last)
        if location is not None and location[1] == steps.count - 2:
            owner = location[0]
            self._require_for_all_steps(
                row,
                lambda k: (
                    (k == 0 or row[k] is owner[k - 1])
                    and (fx.is_tensor(row[k]) and fx.shape_of(row[k]) == fx.shape_of(last))
                ),
            )
            steps.carried[row] = owner
            return "carried"
        if self._record_element_row(row):
            return "element"
        if last in steps.place or last.op != "call_function" or not operands_of(last):
            raise StepsDiffer(steps.count - 1)
        self._require_for_all_steps(
            row, lambda k: call_signature(row[k]) == call_signature(last) and row[k] not in steps.place
        )
        if (
            len(set(row)) != len(row)
            or not fx.is_tensor(last)
            or is_write(last)
            or last.target in LOOP_ARGUMENT
        ):
            raise StepsDiffer(steps.count - 1)
        steps.rows.append(row)
        steps.place.update((node, (row, k)) for k, node in enumerate(row))
        return "computed"

    def _require_for_all_steps(self, row: Row, holds: Callable[[int], bool]) -> None:
        """Raises if a condition fails for a step."""
        for k in range(len(row) - 1, -1, -1):
            if not holds(k):
                raise StepsDiffer(k)

    def _record_element_row(self, row: Row) -> bool:
        """Records a row of slices at equal distances."""
        reads = [_unit_step_slice(node) for node in row]
        before, last = reads[-2:]
        if before is None or last is None or self.numbers[before.source] != self.numbers[last.source]:
            return False
        stride, end = last.first - before.first, self.steps.count - 1
        number = self.numbers[last.source]
        expected = [replace(last, first=last.first - (end - k) * stride) for k in range(end + 1)]
        self._require_for_all_steps(
            row, lambda k: _slices_match(reads[k], expected[k], self.numbers, number) and fx.is_tensor(row[k])
        )
        if not stride or (abs(stride) != last.size and last.size > MOST_TAKEN):
            raise StepsDiffer(end)
        self.steps.elements[row] = StepElement(last.source, last.axis, expected[0].first, stride, last.size)
        return True

    def path(self) -> list[int] | None:
        """Returns the operand positions that lead from the last step's result to the previous one; None if it does
        not depend on it."""
        with suppress(StepsDiffer):  # of two steps one may be the first, which differs elsewhere
            self.match(self.chain)
        row = next((r for r, owner in self.steps.carried.items() if owner == self.chain), None)
        path: list[int] = []
        while row is not None:
            reached = self._reached[row]
            if reached is None:
                return path[::-1]
            row, position = reached
            path.append(position)
        return None

    def extended(self) -> UnrolledSteps | None:
        """Returns the loop with all further rows computed from it; None if it depends on its own results
        otherwise."""
        if not _is_self_contained(self.steps):
            return None
        at = 0
        while at < len(self.steps.rows):
            row = self.steps.rows[at]
            for user in list(row[-1].users):
                for others in self._corresponding_rows(row, user):
                    self._try_row(others)
            at += 1
        return self.steps

    def _corresponding_rows(self, row: Row, user: Node) -> Iterator[Row]:
        """Returns the corresponding users of a row in the other steps."""
        if user in self.steps.place or user.op != "call_function" or user in row[0].users:
            return
        expected = call_signature(user)
        alike = [[u for u in node.users if call_signature(u) == expected] for node in row]
        number = alike[-1].index(user)
        if all(len(users) == len(alike[-1]) for users in alike):
            yield tuple(users[number] for users in alike)

    def _try_row(self, row: Row) -> None:
        """Adds a row with everything upstream if it is part of the steps."""
        steps, reached = self.steps.copy(), dict(self._reached)
        try:
            self.match(row)
            is_part = _is_self_contained(self.steps)
        except StepsDiffer:
            is_part = False
        if not is_part:
            self.steps, self._reached = steps, reached


def _slices_match(
    actual: StepSlice | None, expected: StepSlice, numbers: ValueNumbering, number: int
) -> bool:
    """Whether a slice equals `wanted`, on a tensor of the same value."""
    return (
        actual is not None
        and replace(actual, source=expected.source) == expected
        and numbers[actual.source] == number
    )


def _unit_step_slice(node: Node) -> StepSlice | None:
    """Returns the slice that a node reads; None unless its step is 1."""
    if node.target is not aten.slice.Tensor or fx.argument_of(node, 4, 1) != 1:
        return None
    source = fx.argument_of(node, 0)
    axis = fx.argument_of(node, 1, 0) % len(fx.shape_of(source))
    begin = fx.argument_of(node, 2) or 0
    return StepSlice(
        source, axis, begin + fx.shape_of(source)[axis] if begin < 0 else begin, fx.shape_of(node)[axis]
    )


def _is_self_contained(steps: UnrolledSteps) -> bool:
    """Whether nothing that the loop reads depends on its results, and all loop invariants are constant or real."""
    sources = [element.source for element in steps.elements.values()]
    owners = list(steps.carried.values())
    if len(set(owners)) != len(owners) or not owners or any(fx.is_constant(source) for source in sources):
        return False
    if any(not fx.is_tensor(node) and not fx.is_constant(node) for node in steps.same):
        return False
    begins = {*sources, *steps.same, *(row[0] for row in steps.carried)}
    behind = set(steps.place)
    for node in owners[0][0].graph.nodes:
        if not behind.isdisjoint(node.all_input_nodes):
            behind.add(node)
    return behind.isdisjoint(begins)
