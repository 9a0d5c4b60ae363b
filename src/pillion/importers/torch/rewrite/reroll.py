# SPDX-License-Identifier: Apache-2.0
"""Rolls unrolled steps back into loops. The computation stays the same; in int8, all steps share their scales."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch.fx import Graph, GraphModule, Node

from pillion.importers.torch import fx_nodes as fx
from pillion.importers.torch.fx_nodes import aten
from pillion.importers.torch.loop_nodes import CARRIED, ELEMENT, LAST, STACKED, new_loop
from pillion.importers.torch.rewrite.unrolled_loops import Row, StepElement, UnrolledSteps, find_steps
from pillion.ir.constraints import QuantizationConstraints

Move = Callable[[Node, Node], Node]
"""Applies a view's inverse or the view itself to another node."""
VIEWS = (aten.reshape.default, aten.permute.default)


def reroll_loops(module: GraphModule, constraints: QuantizationConstraints) -> None:
    """Rolls all unrolled loops of a module."""
    unrolled = fx.CONVOLUTIONS if constraints.copies_of_convolutions else ()
    while (steps := find_steps(module.graph, unrolled)) is not None:
        _LoopBuilder(steps).roll()
        sort_topologically(module.graph)


def sort_topologically(graph: Graph) -> None:
    """Sorts nodes topologically, and otherwise keeps their order."""
    done: set[Node] = set()
    end = graph.output_node()
    for node in list(graph.nodes):
        waiting = [node]
        while waiting:
            current = waiting[-1]
            missing = [n for n in current.all_input_nodes if n not in done]
            waiting += missing
            if not missing:
                waiting.pop()
                if current not in done and current is not end:
                    end.prepend(current)
                done.add(current)


class _LoopBuilder:
    """Replaces unrolled steps by one loop."""

    def __init__(self, steps: UnrolledSteps) -> None:
        self.steps, self.number = steps, new_loop()
        order = {node: index for index, node in enumerate(next(iter(steps.place)).graph.nodes)}
        self.rows = sorted(steps.rows, key=lambda row: order[row[-1]])
        readers = [reader for row in self.rows for reader in self._outside_readers(row)]
        self.before = min(readers, key=order.__getitem__)
        strides = [element.stride for element in steps.elements.values()]
        self.reverse = bool(strides) and max(strides) < 0
        self.inside: dict[Node, Node] = {}
        """Nodes of the loop by their counterparts in the last step."""
        self.states: dict[Row, Node] = {}
        self.stacks: dict[Row, Node] = {}

    def roll(self) -> None:
        """Inserts the loop, redirects readers of the steps, and erases the steps."""
        outside = {row: readers for row in self.rows if (readers := list(self._outside_readers(row)))}
        self._insert_loop_begin()
        for row in self.rows:
            self._compute_row(row)
        lasts = self._insert_last_calls()
        for row, readers in outside.items():
            self._redirect_readers(row, readers, lasts)
        for step in range(self.steps.count - 1, -1, -1):
            for row in reversed(self.rows):
                row[step].graph.erase_node(row[step])

    def _outside_readers(self, row: Row) -> Iterator[Node]:
        """Readers of a row outside the steps."""
        users = dict.fromkeys(user for node in row for user in node.users)
        return (user for user in users if user not in self.steps.place)

    def _insert_loop_begin(self) -> None:
        sequences = [(row, self._insert_sequence(e)) for row, e in self.steps.elements.items()]
        for row, sequence in sequences:
            self.inside[row[-1]] = fx.call(self.before, ELEMENT, sequence, self.number, self.reverse)
        for index, (row, owner) in enumerate(self.steps.carried.items()):
            source, views = self._row_behind_views(owner)
            first = row[0]
            for view in reversed(views):
                first = _invert_view(self.before, view, first)
            shape = self._flatten_input_dependent(first, [s for _, s in sequences])
            state = fx.call(self.before, CARRIED, first, shape, self.number, index)
            self.states[source] = state
            for view in views:
                state = _apply_view(self.before, view, state)
            self.inside[row[-1]] = state

    def _insert_sequence(self, element: StepElement) -> Node:
        """Elements that the steps read, along a first axis, in the order in which the loop reads them."""
        source, axis, stride, size = element.source, element.axis, abs(element.stride), element.size
        count, shape = self.steps.count, fx.shape_of(source)
        low = min(element.first, element.first + (count - 1) * element.stride)
        if stride == size:
            part = _slice_axis(self.before, source, axis, low, count * size, 1)
        else:
            each = [
                _slice_axis(self.before, source, axis, low + i, (count - 1) * stride + 1, stride)
                for i in range(size)
            ]
            apart = [*shape[:axis], count, 1, *shape[axis + 1 :]]
            rows = [fx.call(self.before, aten.reshape.default, e, apart) for e in each]
            part = fx.call(self.before, aten.cat.default, rows, axis + 1) if size > 1 else rows[0]
        split = fx.call(
            self.before, aten.reshape.default, part, [*shape[:axis], count, size, *shape[axis + 1 :]]
        )
        rank = len(shape) + 1
        order = [axis, *(a for a in range(rank) if a != axis)]
        sequence = fx.call(self.before, aten.permute.default, split, order) if axis else split
        backwards = (element.stride < 0) != self.reverse
        return fx.call(self.before, aten.flip.default, sequence, [0]) if backwards else sequence

    def _flatten_input_dependent(self, first: Node, sequences: list[Node]) -> Node:
        """Flattens an input-dependent tensor to [n, 1], so that `carried` does not broadcast the state."""
        nodes = [*sequences, first, *(row[0] for row in self.steps.carried), *self.steps.same]
        source = next(node for node in nodes if not fx.is_constant(node))
        return fx.call(self.before, aten.reshape.default, source, [fx.fake_result(source).numel(), 1])

    def _row_behind_views(self, row: Row) -> tuple[Row, list[Node]]:
        """Returns the row behind a chain of views, and the views in order."""
        views: list[Node] = []
        while row[-1].target in VIEWS and row[-1].args[0] in self.steps.place:
            views.append(row[-1])
            row = self.steps.place[row[-1].args[0]][0]  # type: ignore[index]  # a node
        return row, views[::-1]

    def _compute_row(self, row: Row) -> None:
        last = row[-1]
        same = {n: self.inside.get(n, n) for n in last.all_input_nodes}
        with last.graph.inserting_before(self.before):
            copy = last.graph.node_copy(last, same.__getitem__)
        copy.meta = {**last.meta}
        self.inside[last] = copy

    def _insert_last_calls(self) -> dict[Row, Node]:
        """Inserts the `last` calls and returns them by row."""
        lasts: dict[Row, Node] = {}
        count = self.steps.count
        for index, owner in enumerate(self.steps.carried.values()):
            source, views = self._row_behind_views(owner)
            state = self.states[source]
            last = fx.call(self.before, LAST, state, self.inside[source[-1]], self.number, index, count)
            lasts[source] = last
            for view in views:
                last = _apply_view(self.before, view, last)
            lasts[owner] = last
        return lasts

    def _redirect_readers(self, row: Row, readers: list[Node], lasts: dict[Row, Node]) -> None:
        """Redirects outside readers of a row to the loop's results."""
        earlier = {user for node in row[:-1] for user in node.users}
        if row in lasts and earlier.isdisjoint(readers):
            row[-1].replace_all_uses_with(
                lasts[row], delete_user_cb=lambda user: user not in self.steps.place
            )
        for reader in fx.calls(row[0].graph, [aten.cat.default]):
            if reader in readers:
                self._merge_concat_steps(row, reader)
        for step, node in enumerate(row):
            for reader in [user for user in node.users if user not in self.steps.place]:
                reader.replace_input_with(node, self._result_of_step(row, step))

    def _stacked_results(self, row: Row) -> Node:
        """Results of all steps of a row, stacked."""
        source, views = self._row_behind_views(row)
        if source not in self.stacks:
            inner = self.inside[source[-1]]
            self.stacks[source] = fx.call(
                self.before, STACKED, inner, self.number, self.steps.count, self.reverse
            )
        stack = self.stacks[source]
        for view in views:
            stack = _apply_view_to_stack(self.before, view, stack)
        return stack

    def _stack_position(self, step: int) -> int:
        return self.steps.count - 1 - step if self.reverse else step

    def _result_of_step(self, row: Row, step: int) -> Node:
        part = _slice_axis(self.before, self._stacked_results(row), 0, self._stack_position(step), 1, 1)
        return fx.call(self.before, aten.reshape.default, part, list(fx.shape_of(row[step])))

    def _merge_concat_steps(self, row: Row, reader: Node) -> None:
        """Replaces consecutive steps in a concatenation by one tensor."""
        operands: Any = reader.args[0]
        rank = len(fx.shape_of(reader))
        axis = fx.argument_of(reader, 1, 0) % rank
        joined: list[Node] = []
        for run in _consecutive_runs([self._step_of_node(row, node) for node in operands]):
            part = operands[run.start : run.stop]
            if len(part) > 1 and self._step_of_node(row, part[0]) is not None:
                places = [self._stack_position(self.steps.place[n][1]) for n in part]
                joined.append(self._concat_steps(row, places, axis))
            else:
                joined += part
        if len(joined) == 1:
            reader.replace_all_uses_with(joined[0])
        reader.args = (joined, axis)

    def _step_of_node(self, row: Row, node: Node) -> int | None:
        location = self.steps.place.get(node)
        return location[1] if location is not None and location[0] == row else None

    def _concat_steps(self, row: Row, steps: list[int], axis: int) -> Node:
        """Concatenates some steps of a row along one of their axes."""
        low, count, shape = min(steps), len(steps), fx.shape_of(row[0])
        part = _slice_axis(self.before, self._stacked_results(row), 0, low, count, 1)
        if steps[0] > steps[-1]:
            part = fx.call(self.before, aten.flip.default, part, [0])
        order = [*range(1, axis + 1), 0, *range(axis + 1, len(shape) + 1)]
        moved = fx.call(self.before, aten.permute.default, part, order) if axis else part
        full_shape = [*shape[:axis], count * shape[axis], *shape[axis + 1 :]]
        return fx.call(self.before, aten.reshape.default, moved, full_shape)


def _consecutive_runs(numbers: list[int | None]) -> Iterator[range]:
    """Yields runs of positions whose numbers ascend or descend by one."""
    begin = 0
    for at in range(1, len(numbers) + 1):
        goes_on = at < len(numbers) and _are_consecutive(numbers[begin : at + 1])
        if not goes_on:
            yield range(begin, at)
            begin = at


def _are_consecutive(numbers: list[int | None]) -> bool:
    known = [n for n in numbers if n is not None]
    if len(known) < len(numbers):
        return False
    step = known[1] - known[0]
    return abs(step) == 1 and known == list(range(known[0], known[-1] + step, step))


def _slice_axis(before: Node, x: Node, axis: int, first: int, count: int, step: int) -> Node:
    if (first, count, step) == (0, fx.shape_of(x)[axis], 1):
        return x
    return fx.call(before, aten.slice.Tensor, x, axis, first, first + count, *([step] if step != 1 else []))


def _apply_view(before: Node, view: Node, x: Node) -> Node:
    return fx.call(before, view.target, x, *view.args[1:])  # type: ignore[arg-type]  # a call


def _invert_view(before: Node, view: Node, x: Node) -> Node:
    """Applies the inverse of a view."""
    shape = fx.shape_of(view.args[0])  # type: ignore[arg-type]  # a node
    if view.target is aten.reshape.default:
        return fx.call(before, aten.reshape.default, x, list(shape))
    return fx.call(before, aten.permute.default, x, fx.inverse_permutation(_view_axis_order(view)))


def _apply_view_to_stack(before: Node, view: Node, stack: Node) -> Node:
    """Applies a view to each step of a stack."""
    if view.target is aten.reshape.default:
        return fx.call(before, aten.reshape.default, stack, [fx.shape_of(stack)[0], *fx.shape_of(view)])
    return fx.call(before, aten.permute.default, stack, [0, *(a + 1 for a in _view_axis_order(view))])


def _view_axis_order(view: Node) -> list[int]:
    axes: Any = view.args[1]
    return [int(axis) % len(axes) for axis in axes]
