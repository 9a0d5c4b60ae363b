# SPDX-License-Identifier: Apache-2.0
"""Reads a WHILE of a float file as a loop in torch's graph, with one copy of its step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.importers.tflite.loop_analysis import Element, LoopRows, WhileLoop
from pillion.importers.torch.loop_nodes import CARRIED, ELEMENT, LAST, STACKED, new_loop
from pillion.ir.types import Array, DType, constant


class Looped(nn.Module):
    """A loop whose step is a module with inputs for elements, carried values and invariants."""

    def __init__(
        self, call: ReadOperator, loop: WhileLoop, step: nn.Module, shapes: Sequence[tuple[int, ...]]
    ) -> None:
        super().__init__()
        self.loop, self.step, self.shapes = loop, step, shapes
        _require_float_carried_values(call, loop)
        lists = [rows.operand for rows in loop.rows if self.before(call, rows)]
        read = [*(e.operand for e in loop.elements), *loop.carried, *loop.fixed, *lists]
        self.operands = tuple(dict.fromkeys(read))
        self.results = (*(rows.operand for rows in loop.rows), *loop.carried, *loop.same)
        """The indices of WHILE's results that the module returns."""
        self.lists = {rows.operand: call.outputs[rows.operand].shape for rows in loop.rows}
        self.ends = {n: call.outputs[n].shape for n in (*loop.carried, *loop.same)}
        computed = [n for n in self.operands if not call.operand(n).is_constant]
        if not computed:
            raise call.refuse("a loop computes something of the inputs", "all that it reads are constants")
        self.anchor = computed[0]

    @staticmethod
    def before(call: ReadOperator, rows: LoopRows) -> bool:
        """Whether some rows of a list keep their value from before the loop."""
        return len({*rows.numbers.tolist()}) < call.outputs[rows.operand].shape[0]

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        """Returns the lists and the final carried values."""
        loop, number = self.loop, new_loop()
        tensors = dict(zip(self.operands, given, strict=True))
        anchor = tensors[self.anchor].reshape(1, 1, -1)
        xs = [ELEMENT(sequence(tensors[e.operand], e), number, False) for e in loop.elements]
        states = [
            CARRIED(tensors[n].reshape(shape), anchor, number, index)
            for index, (n, shape) in enumerate(zip(loop.carried, self.shapes, strict=True))
        ]
        results = self.step(*xs, *states, *(tensors[n] for n in loop.fixed))
        results = results if isinstance(results, (tuple, list)) else (results,)
        stacked = [STACKED(y, number, loop.count, False) for y in results[: len(loop.rows)]]
        nexts = results[len(loop.rows) :]
        lasts = {
            n: LAST(state, following, number, index, loop.count)
            for index, (n, state, following) in enumerate(zip(loop.carried, states, nexts, strict=True))
        }
        lists = [self.listed(rows, y, tensors) for rows, y in zip(loop.rows, stacked, strict=True)]
        finals = [lasts[loop.same.get(n, n)].reshape(shape) for n, shape in self.ends.items()]
        return (*lists, *finals)

    def listed(self, rows: LoopRows, stacked: Tensor, held: dict[int, Tensor]) -> Tensor:
        """Returns a list with the rows in their places."""
        shape = self.lists[rows.operand]
        stacked = stacked.reshape(self.loop.count, *shape[1:])
        written = {int(row): step for step, row in enumerate(rows.numbers)}
        if len(written) < shape[0]:
            stacked = torch.cat([stacked, held[rows.operand]])
        numbers = np.array([written.get(row, self.loop.count + row) for row in range(shape[0])])
        return gather_slices(stacked, numbers)


def sequence(x: Tensor, element: Element) -> Tensor:
    """Returns a tensor with the elements of all steps along its first axis."""
    axis, numbers = element.axis, element.numbers
    if numbers.shape[1] == 1:
        return gather_slices(x.movedim(axis, 0) if axis else x, numbers[:, 0])
    shape = (*x.shape[:axis], *numbers.shape, *x.shape[axis + 1 :])
    gathered = torch.index_select(x, axis, torch.from_numpy(numbers.ravel().astype(np.int64)))
    return gathered.reshape(shape).movedim(axis, 0)


def gather_slices(x: Tensor, numbers: Array) -> Tensor:
    """Returns the slices of the first axis at these indices."""
    pace = int(numbers[1] - numbers[0]) if len(numbers) > 1 else 1
    if abs(pace) != 1 or (np.diff(numbers) != pace).any():
        return torch.index_select(x, 0, torch.from_numpy(numbers.astype(np.int64)))
    first, count = int(numbers.min()), len(numbers)
    x = x if count == x.shape[0] else x[first : first + count]
    return torch.flip(x, (0,)) if pace < 0 else x


def bind_uncomputed_results(call: ReadOperator, loop: WhileLoop) -> None:
    """Binds the results that a loop does not compute: counters and unchanged operands."""
    for number, final_values in loop.counted.items():
        call.bind(call.outputs[number], constant(call.outputs[number].name, final_values))
    for number in loop.kept:
        call.rename(call.outputs[number], call.operand(number))


def _require_float_carried_values(call: ReadOperator, loop: WhileLoop) -> None:
    """Raises unless carried values are float32 tensors with at least one axis."""
    for number in (*loop.carried, *(rows.operand for rows in loop.rows)):
        value = call.operand(number)
        if value.dtype is not DType.FLOAT32 or not value.shape:
            raise call.refuse(
                "steps hand on tensors of float32", repr(value), "carry real numbers with an axis"
            )
