# SPDX-License-Identifier: Apache-2.0
"""Reads WHILE: the body of a loop becomes the graph of a scan."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from pillion.codecs.tflite.read_operator import Reading, ReadOperator
from pillion.errors import PillionError
from pillion.importers.tflite.file_diagnosis import combined_error
from pillion.importers.tflite.loop_analysis import Element, LoopRows, WhileLoop, loop_of
from pillion.importers.tflite.model import TfliteReader
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, Shape, TensorType, Value, constant
from pillion.ops.indexing import Gather
from pillion.ops.movement import Concat, Flip, Reshape, Slice, Transpose
from pillion.ops.scan import Scan

OpsOf = Callable[[ReadOperator], list[Op]]


def all_ops(reader: TfliteReader, ops_of: OpsOf) -> list[Op]:
    """Returns all operators of a subgraph as ops; raises one error for all refused operators."""
    ops: list[Op] = []
    refused: list[PillionError] = []
    for call in reader.calls():
        try:
            ops += ops_of(call)
        except PillionError as error:
            refused.append(error)
    if refused:
        raise combined_error(refused)
    return ops


def loop(ops_of: OpsOf) -> Reading:
    """Returns the reader of a loop, whose body uses `ops_of`."""

    def row(call: ReadOperator) -> list[Op]:
        found, reader = loop_of(call)
        return _LoopConversion(call, found, reader).ops(ops_of)

    return row


@dataclass
class _LoopConversion:
    """A loop under conversion."""

    call: ReadOperator
    loop: WhileLoop
    reader: TfliteReader
    before: list[Op] = field(default_factory=list)

    def ops(self, ops_of: OpsOf) -> list[Op]:
        """Returns the ops before the scan, the scan, and the ops of its results."""
        loop, reader = self.loop, self.reader
        inputs = [reader.value(tensor) for tensor in loop.step.inputs]
        carried = inputs[len(loop.elements) :][: len(loop.carried)]
        sequences = [self.sequence(one) for one in loop.elements]
        initial = [
            self.reshaped(self.operand(n), to.shape) for n, to in zip(loop.carried, carried, strict=True)
        ]
        inner = all_ops(reader, ops_of)
        self.require_no_states()
        outputs = tuple(reader.value(tensor) for tensor in loop.step.outputs)
        body = Graph(
            "step",
            tuple(inputs),
            tuple(inner),
            outputs,
            Arithmetic.TFLITE,
        ).without_dead_ops()
        ys = [self.result_of(value, number < len(loop.rows)) for number, value in enumerate(outputs)]
        made = Scan(
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
        """Returns an operand of the loop."""
        return self.call.operand(number)

    def sequence(self, element: Element) -> Value:
        """Returns a tensor with the elements of all steps along its first axis."""
        x, axis, numbers = self.operand(element.operand), element.axis, element.numbers
        if numbers.shape[1] > 1:
            shape = (*x.shape[:axis], *numbers.shape, *x.shape[axis + 1 :])
            x = self.add(Gather, x, shape, indices=self.numbers(numbers), axis=axis)
        if axis:
            order = (axis, *(a for a in range(x.type.rank) if a != axis))
            x = self.add(Transpose, x, tuple(x.shape[a] for a in order), order=order)
        if numbers.shape[1] > 1:
            return x
        return self.gather_slices(x, numbers[:, 0])

    def gather_slices(self, x: Value, numbers: Array) -> Value:
        """Returns the slices of the first axis at these indices."""
        shape = (len(numbers), *x.shape[1:])
        pace = int(numbers[1] - numbers[0]) if len(numbers) > 1 else 1
        if (np.diff(numbers) == pace).all() and abs(pace) == 1:
            if shape != x.shape:
                begin = (int(numbers.min()), *(0,) * (x.type.rank - 1))
                x = self.add(Slice, x, shape, begin=begin, step=(1,) * x.type.rank)
            return self.add(Flip, x, shape, axes=(0,)) if pace < 0 else x
        return self.add(Gather, x, shape, indices=self.numbers(numbers), axis=0)

    def reshaped(self, x: Value, shape: Shape) -> Value:
        """Returns a value in another shape."""
        if x.shape == shape:
            return x
        if x.is_constant:
            return constant(self.call.fresh(x.name), x.constant.reshape(shape), x.type.quant)
        return self.add(Reshape, x, shape)

    def add(self, cls: type[Op], x: Value, shape: Shape, **fields: object) -> Value:
        """Adds an op before or behind the loop and returns its result."""
        y = Value(self.call.fresh(f"{x.name}/steps"), TensorType(shape, x.dtype, x.type.quant))
        self.before.append(cls(x=x, y=y, source=self.call.source, **fields))  # type: ignore[call-arg]  # of each class
        return y

    def numbers(self, numbers: Array) -> Value:
        """Returns a constant of indices."""
        return constant(self.call.fresh("numbers"), numbers.astype(np.int32))

    def require_no_states(self) -> None:
        """Raises if the body has states."""
        held = self.reader.variables
        if held.held or held.kept or held.called:
            rule = "the body of a loop has no variables, and no layers that remember"
            raise self.call.refuse(rule, f"{len(held.held) + len(held.kept) + len(held.called)} of them")

    def result_of(self, value: Value, is_row: bool) -> Value:
        """Returns the scan's result for an output of its step."""
        shape = (self.loop.count, *value.shape) if is_row else value.shape
        name = self.call.fresh(f"{value.name}/all" if is_row else f"{value.name}/last")
        return Value(name, dataclasses.replace(value.type, shape=shape))

    def behind(self, ys: list[Value]) -> list[Op]:
        """Returns the ops that compute the results of WHILE."""
        self.before = []
        loop, outputs = self.loop, self.call.outputs
        for rows, y in zip(loop.rows, ys, strict=False):
            self.end(self.list_with_rows(rows, y), outputs[rows.operand])
        lasts = dict(zip(loop.carried, ys[len(loop.rows) :], strict=True))
        for number in (*loop.carried, *loop.same):
            self.end(lasts[loop.same.get(number, number)], outputs[number])
        for number, held in loop.counted.items():
            self.call.bind(outputs[number], constant(outputs[number].name, held))
        for number in loop.kept:
            self.call.rename(outputs[number], self.operand(number))
        return self.before

    def end(self, x: Value, y: Value) -> None:
        """Sets a result to a value in the result's shape."""
        self.before.append(Reshape(x=x, y=y, source=self.call.source))

    def list_with_rows(self, rows: LoopRows, stacked: Value) -> Value:
        """Returns a list with the written rows in their places, and other rows unchanged."""
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
        return self.gather_slices(stacked, numbers)
