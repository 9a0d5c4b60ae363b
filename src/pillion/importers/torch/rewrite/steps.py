# SPDX-License-Identifier: Apache-2.0
"""Finds loops that torch has written out: the same calls again and again, each time on the next part of a sequence and on what the time
before has left.

Nothing is looked for by name. Two calls of the same operator, of which one depends on the other, may be what two steps leave; the chain of
all of them is compared backwards, operand by operand, in all steps at once. Operands of all steps are a row, and each row is one of

    the same      one tensor in all steps: weights, what is computed before the loop
    an element    slices of one tensor, each the next part of it
    carried       what a row of the loop was in the step before, and something else at first
    computed      calls of one operator, of the same arguments, whose operands are again such rows

or the chain is no loop. Where only its first steps differ, those stay as they are, and the loop begins behind them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from torch.fx import Graph, Node

from pillion.importers.torch.loops import LOOP_ARGUMENT
from pillion.importers.torch.nodes import (
    argument,
    aten,
    is_constant,
    is_tensor,
    shape_of,
)
from pillion.importers.torch.rewrite.functional import is_write
from pillion.importers.torch.rewrite.likeness import Numbers, Rhythm, operands_of, signature

Row = tuple[Node, ...]
"""What has the same place in all steps: a node of each."""

FEWEST_STEPS = 3
"""Steps from which on they are a loop."""
FEWEST_PLAIN_STEPS = 8
"""Steps from which on they are a loop where no layer has weights in them: each is so few instructions that few copies cost nothing."""
CONVOLUTIONS = frozenset(
    {aten.conv1d.default, aten.conv2d.default, aten.conv_transpose1d.default, aten.conv_transpose2d.input}
)
LAYERS = CONVOLUTIONS | {
    aten.linear.default,
    aten.addmm.default,
    aten.mm.default,
    aten.bmm.default,
    aten.baddbmm.default,
}
MOST_CANDIDATES = 12
"""Earlier calls that are tried as what the step before has left: a step may call an operator so often."""
MOST_TRIMS = 16
"""How often a chain is tried again without the steps that differ."""
MOST_TAKEN = 64
"""Elements along the axis of a sequence that one step may read where steps read more or less than what lies between them."""


class Differs(Exception):
    """Steps up to `last` are not like those after them; none is, where that is the last one."""

    def __init__(self, last: int) -> None:
        super().__init__(last)
        self.last = last


@dataclass(frozen=True)
class Slice:
    """Neighbours along an axis of a tensor: from which on, and how many."""

    source: Node
    axis: int
    first: int
    size: int


@dataclass(frozen=True)
class Element:
    """How the steps read a sequence: `size` along an axis, from `first` on, each `stride` further."""

    source: Node
    axis: int
    first: int
    stride: int
    size: int


@dataclass
class Steps:
    """A loop that was found, and its rows by what they are."""

    count: int
    rows: list[Row] = field(default_factory=list)
    """What each step computes, in no order."""
    elements: dict[Row, Element] = field(default_factory=dict)
    carried: dict[Row, Row] = field(default_factory=dict)
    """Operands of the steps that are what the step before has computed, by the row that they are of."""
    same: dict[Node, None] = field(default_factory=dict)
    place: dict[Node, tuple[Row, int]] = field(default_factory=dict)
    """The row and the step of all that is computed."""

    def copy(self) -> Steps:
        """Gives the same, to be tried further."""
        return Steps(
            self.count,
            list(self.rows),
            dict(self.elements),
            dict(self.carried),
            dict(self.same),
            dict(self.place),
        )


def find_steps(graph: Graph, kept: Collection[Any] = ()) -> Steps | None:
    """Gives the last loop of a graph, of those that have no calls of some operators. What was found has to be rewritten before the next
    is looked for."""
    numbers = Numbers(graph)
    rhythm = Rhythm(graph, numbers)
    for node, candidates in rhythm.repeated(MOST_CANDIDATES):
        steps = _from(node, candidates, numbers, kept)
        if steps is not None:
            return steps
    return None


def _from(last: Node, candidates: Iterable[Node], numbers: Numbers, kept: Collection[Any]) -> Steps | None:
    """The loop whose last step leaves a node, if there is one."""
    for before in candidates:
        path = Matcher((before, last), numbers).path()
        chain = _chain(before, last, path) if path is not None else []
        steps = _steps(chain, numbers)
        if steps is not None and _is_worth_while(steps, kept):
            return steps
    return None


def _steps(chain: list[Node], numbers: Numbers) -> Steps | None:
    """The loop whose steps leave the nodes of a chain, or of its end."""
    for _ in range(MOST_TRIMS):
        if len(chain) < FEWEST_STEPS:
            return None
        matcher = Matcher(tuple(chain), numbers)
        try:
            matcher.match(matcher.chain)
        except Differs as differs:
            chain = chain[differs.last + 1 :]
        else:
            return matcher.extended()
    return None


def _chain(before: Node, last: Node, path: list[int]) -> list[Node]:
    """What all steps leave, from the first one on, by the way from what one leaves to what the one before has left."""
    chain, wanted = [last, before], signature(last)
    while True:
        node: Node | None = chain[-1]
        for position in path:
            operands = operands_of(node) if node is not None else []
            node = operands[position] if position < len(operands) else None
        if node is None or node.op != "call_function" or signature(node) != wanted:
            return chain[::-1]
        chain.append(node)


def _is_worth_while(steps: Steps, kept: Collection[Any]) -> bool:
    """Whether there is enough in a step, or enough of them: not where a function is applied to itself a few times."""
    if any(row[0].target in kept for row in steps.rows):
        return False
    if any(row[0].target in LAYERS for row in steps.rows):
        return True
    return steps.count >= FEWEST_PLAIN_STEPS and bool(steps.elements)


class Matcher:
    """Compares the steps of a chain, from what they leave backwards."""

    def __init__(self, chain: Row, numbers: Numbers) -> None:
        self.chain, self.numbers = chain, numbers
        self.steps = Steps(len(chain))
        self._reached: dict[Row, tuple[Row, int] | None] = {}
        """For each row, by which operand of which row it was reached."""

    def match(self, row: Row) -> None:
        """Finds out what a row is, and all that it is computed from; raises `Differs` where it is nothing."""
        waiting: deque[tuple[Row, tuple[Row, int] | None]] = deque([(row, None)])
        while waiting:  # the nearest first: what is no loop is soon seen to be none
            one, reader = waiting.popleft()
            if one in self._reached:
                continue
            self._reached[one] = reader
            if self._kind(one) == "computed":
                operands = zip(*map(operands_of, one), strict=True)
                waiting.extend((tuple(o), (one, i)) for i, o in enumerate(operands))

    def _kind(self, row: Row) -> str:
        steps, previous, last = self.steps, row[-2], row[-1]
        if self.numbers[previous] == self.numbers[last]:
            self._want(row, lambda k: self.numbers[row[k]] == self.numbers[last])
            steps.same[last] = None
            return "same"
        found = steps.place.get(last)
        if found is not None and found[1] == steps.count - 2:
            owner = found[0]
            self._want(row, lambda k: (k == 0 or row[k] is owner[k - 1]) and _is_like(row[k], last))
            steps.carried[row] = owner
            return "carried"
        if self._is_element(row):
            return "element"
        if last in steps.place or last.op != "call_function" or not operands_of(last):
            raise Differs(steps.count - 1)
        self._want(row, lambda k: signature(row[k]) == signature(last) and row[k] not in steps.place)
        if len(set(row)) != len(row) or not is_tensor(last) or is_write(last) or last.target in LOOP_ARGUMENT:
            raise Differs(steps.count - 1)
        steps.rows.append(row)
        steps.place.update((node, (row, k)) for k, node in enumerate(row))
        return "computed"

    def _want(self, row: Row, holds: Callable[[int], bool]) -> None:
        """Raises where something does not hold for a step, up to which the loop is none."""
        for k in range(len(row) - 1, -1, -1):
            if not holds(k):
                raise Differs(k)

    def _is_element(self, row: Row) -> bool:
        """Notes a row of slices of one tensor that lie at the same distance from one to the next."""
        reads = [_slice(node) for node in row]
        before, last = reads[-2:]
        if before is None or last is None or self.numbers[before.source] != self.numbers[last.source]:
            return False
        stride, end = last.first - before.first, self.steps.count - 1
        number = self.numbers[last.source]
        wanted = [replace(last, first=last.first - (end - k) * stride) for k in range(end + 1)]
        self._want(row, lambda k: _fits(reads[k], wanted[k], self.numbers, number) and is_tensor(row[k]))
        if not stride or (abs(stride) != last.size and last.size > MOST_TAKEN):
            raise Differs(end)
        self.steps.elements[row] = Element(last.source, last.axis, wanted[0].first, stride, last.size)
        return True

    def path(self) -> list[int] | None:
        """Gives by which operands the last step reads what the one before has left, if it does."""
        with suppress(Differs):  # of two steps one may be the first, which differs elsewhere
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

    def extended(self) -> Steps | None:
        """Gives the loop with all that each step computes of what it has, if what it reads is made outside."""
        if not _is_closed(self.steps):
            return None
        at = 0
        while at < len(self.steps.rows):
            row = self.steps.rows[at]
            for user in list(row[-1].users):
                for others in self._rows_of(row, user):
                    self._try(others)
            at += 1
        return self.steps

    def _rows_of(self, row: Row, user: Node) -> Iterator[Row]:
        """The users of a row in the other steps that are like the one in the last step."""
        if user in self.steps.place or user.op != "call_function" or user in row[0].users:
            return
        wanted = signature(user)
        alike = [[u for u in node.users if signature(u) == wanted] for node in row]
        number = alike[-1].index(user)
        if all(len(users) == len(alike[-1]) for users in alike):
            yield tuple(users[number] for users in alike)

    def _try(self, row: Row) -> None:
        """Adds a row and what it is computed from, if all of that is part of the steps."""
        steps, reached = self.steps.copy(), dict(self._reached)
        try:
            self.match(row)
            is_part = _is_closed(self.steps)
        except Differs:
            is_part = False
        if not is_part:
            self.steps, self._reached = steps, reached


def _fits(found: Slice | None, wanted: Slice, numbers: Numbers, number: int) -> bool:
    """Whether a slice is the one that is wanted, of a tensor that holds the same."""
    return (
        found is not None
        and replace(found, source=wanted.source) == wanted
        and numbers[found.source] == number
    )


def _is_like(node: Node, other: Node) -> bool:
    return is_tensor(node) and shape_of(node) == shape_of(other)


def _slice(node: Node) -> Slice | None:
    """What a slice of neighbours reads."""
    if node.target is not aten.slice.Tensor or argument(node, 4, 1) != 1:
        return None
    source = argument(node, 0)
    axis = argument(node, 1, 0) % len(shape_of(source))
    begin = argument(node, 2) or 0
    return Slice(source, axis, begin + shape_of(source)[axis] if begin < 0 else begin, shape_of(node)[axis])


def _is_closed(steps: Steps) -> bool:
    """Whether nothing that the loop reads is computed from what it makes, and what is no constant is real numbers."""
    sources = [element.source for element in steps.elements.values()]
    owners = list(steps.carried.values())
    if len(set(owners)) != len(owners) or not owners or any(is_constant(source) for source in sources):
        return False
    if any(not is_tensor(node) and not is_constant(node) for node in steps.same):
        return False
    begins = {*sources, *steps.same, *(row[0] for row in steps.carried)}
    behind = set(steps.place)
    for node in owners[0][0].graph.nodes:
        if not behind.isdisjoint(node.all_input_nodes):
            behind.add(node)
    return behind.isdisjoint(begins)
