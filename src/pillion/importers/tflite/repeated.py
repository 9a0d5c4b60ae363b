# SPDX-License-Identifier: Apache-2.0
"""The reading of WHILE: the body of a loop becomes the graph of a repetition."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from pillion.errors import PillionError
from pillion.importers.tflite.loops import Element, Loop, Rows, loop_of
from pillion.importers.tflite.model import Reader, Reading, ReadOperator
from pillion.importers.tflite.survey import together
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, Shape, TensorType, Value, constant
from pillion.ops.indexing import Gather
from pillion.ops.movement import Concat, Flip, Reshape, Slice, Transpose
from pillion.ops.repeat import Repeat

OpsOf = Callable[[ReadOperator], list[Op]]


def all_ops(reader: Reader, ops_of: OpsOf) -> list[Op]:
    """Gives all operators of a subgraph as ops; what is refused is said of all at once."""
    ops: list[Op] = []
    refused: list[PillionError] = []
    for call in reader.calls():
        try:
            ops += ops_of(call)
        except PillionError as error:
            refused.append(error)
    if refused:
        raise together(refused)
    return ops


def loop(ops_of: OpsOf) -> Reading:
    """Makes the reading of a loop, whose body is read with all operators there are."""

    def row(call: ReadOperator) -> list[Op]:
        found, reader = loop_of(call)
        return _Repeated(call, found, reader).ops(ops_of)

    return row


@dataclass
class _Repeated:
    """A loop that is being read."""

    call: ReadOperator
    loop: Loop
    reader: Reader
    before: list[Op] = field(default_factory=list)

    def ops(self, ops_of: OpsOf) -> list[Op]:
        """Gives what goes before the repetition, the repetition, and what its results become."""
        loop, reader = self.loop, self.reader
        inputs = [reader.value(tensor) for tensor in loop.step.inputs]
        carried = inputs[len(loop.elements) :][: len(loop.carried)]
        sequences = [self.sequence(one) for one in loop.elements]
        initial = [
            self.reshaped(self.operand(n), to.shape) for n, to in zip(loop.carried, carried, strict=True)
        ]
        inner = all_ops(reader, ops_of)
        self.want_no_states()
        outputs = tuple(reader.value(tensor) for tensor in loop.step.outputs)
        body = Graph(
            "step",
            tuple(inputs),
            tuple(inner),
            outputs,
            Arithmetic.TFLITE,
        ).without_dead_ops()
        ys = [self.result_of(value, number < len(loop.rows)) for number, value in enumerate(outputs)]
        made = Repeat(
            sequences=tuple(sequences),
            initial=tuple(initial),
            invariants=tuple(map(self.operand, loop.fixed)),
            ys=tuple(ys),
            body=body,
            count=loop.count,
            source=self.call.source,
        )
        return [*self.before, made, *self.behind(ys)]

    def operand(self, number: int) -> Value:
        """Gives what goes into the loop."""
        return self.call.operand(number)

    def sequence(self, element: Element) -> Value:
        """Gives the tensor whose first axis has the elements of all steps."""
        x, axis, numbers = self.operand(element.operand), element.axis, element.numbers
        if numbers.shape[1] > 1:
            shape = (*x.shape[:axis], *numbers.shape, *x.shape[axis + 1 :])
            x = self.add(Gather, x, shape, indices=self.numbers(numbers), axis=axis)
        if axis:
            order = (axis, *(a for a in range(x.type.rank) if a != axis))
            x = self.add(Transpose, x, tuple(x.shape[a] for a in order), order=order)
        if numbers.shape[1] > 1:
            return x
        return self.in_order(x, numbers[:, 0])

    def in_order(self, x: Value, numbers: Array) -> Value:
        """Gives the slices of the first axis with these numbers."""
        shape = (len(numbers), *x.shape[1:])
        pace = int(numbers[1] - numbers[0]) if len(numbers) > 1 else 1
        if (np.diff(numbers) == pace).all() and abs(pace) == 1:
            if shape != x.shape:
                begin = (int(numbers.min()), *(0,) * (x.type.rank - 1))
                x = self.add(Slice, x, shape, begin=begin, step=(1,) * x.type.rank)
            return self.add(Flip, x, shape, axes=(0,)) if pace < 0 else x
        return self.add(Gather, x, shape, indices=self.numbers(numbers), axis=0)

    def reshaped(self, x: Value, shape: Shape) -> Value:
        """Gives a value in another shape."""
        if x.shape == shape:
            return x
        if x.is_constant:
            return constant(self.call.fresh(x.name), x.constant.reshape(shape), x.type.quant)
        return self.add(Reshape, x, shape)

    def add(self, cls: type[Op], x: Value, shape: Shape, **fields: object) -> Value:
        """Adds an op before the loop, or behind it; gives its result."""
        y = Value(self.call.fresh(f"{x.name}/steps"), TensorType(shape, x.dtype, x.type.quant))
        self.before.append(cls(x=x, y=y, source=self.call.source, **fields))  # type: ignore[call-arg]  # of each class
        return y

    def numbers(self, numbers: Array) -> Value:
        """Makes the constant of numbers of slices."""
        return constant(self.call.fresh("numbers"), numbers.astype(np.int32))

    def want_no_states(self) -> None:
        """Refuses a body that remembers something beyond the run."""
        held = self.reader.variables
        if held.held or held.kept or held.called:
            rule = "the body of a loop has no variables, and no layers that remember"
            raise self.call.refuse(rule, f"{len(held.held) + len(held.kept) + len(held.called)} of them")

    def result_of(self, value: Value, is_row: bool) -> Value:
        """Makes the result of the repetition for an output of its step."""
        shape = (self.loop.count, *value.shape) if is_row else value.shape
        name = self.call.fresh(f"{value.name}/all" if is_row else f"{value.name}/last")
        return Value(name, dataclasses.replace(value.type, shape=shape))

    def behind(self, ys: list[Value]) -> list[Op]:
        """Gives what makes the results of WHILE."""
        self.before = []
        loop, outputs = self.loop, self.call.outputs
        for rows, y in zip(loop.rows, ys, strict=False):
            self.end(self.list_of(rows, y), outputs[rows.operand])
        lasts = dict(zip(loop.carried, ys[len(loop.rows) :], strict=True))
        for number in (*loop.carried, *loop.same):
            self.end(lasts[loop.same.get(number, number)], outputs[number])
        for number, held in loop.counted.items():
            self.call.bind(outputs[number], constant(outputs[number].name, held))
        for number in loop.kept:
            self.call.rename(outputs[number], self.operand(number))
        return self.before

    def end(self, x: Value, y: Value) -> None:
        """Lets a result be a value, in its own shape."""
        self.before.append(Reshape(x=x, y=y, source=self.call.source))

    def list_of(self, rows: Rows, stacked: Value) -> Value:
        """Gives the rows in their places; those that no step wrote are what they were."""
        y, count = self.call.outputs[rows.operand], self.loop.count
        stacked = self.reshaped(stacked, (count, *y.shape[1:]))
        written = {int(row): step for step, row in enumerate(rows.numbers)}
        if len(written) < y.shape[0]:
            before = self.operand(rows.operand)
            shape = (count + y.shape[0], *y.shape[1:])
            both = Value(self.call.fresh(f"{y.name}/both"), dataclasses.replace(stacked.type, shape=shape))
            self.before.append(Concat(xs=(stacked, before), y=both, axis=0, source=self.call.source))
            stacked = both
        numbers = np.array([written.get(row, count + row) for row in range(y.shape[0])])
        return self.in_order(stacked, numbers)
