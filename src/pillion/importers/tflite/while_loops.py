# SPDX-License-Identifier: Apache-2.0
"""Reads WHILE: the body of a loop becomes the graph of a scan."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from pillion.codecs.tflite.read_operator import Reading, ReadOperator
from pillion.errors import PillionError
from pillion.importers.tflite.file_diagnosis import combined_error
from pillion.importers.tflite.loop_analysis import Element, LoopRows, WhileLoop, loop_of
from pillion.importers.tflite.model import TfliteReader
from pillion.importers.tflite.op_chain import OpChain
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, Shape, Value, constant
from pillion.ops.indexing import Gather
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
        while_loop, reader = loop_of(call)
        return _LoopConversion(call, while_loop, reader).converted(ops_of)

    return row


class _LoopConversion(OpChain):
    """A loop under conversion."""

    def __init__(self, call: ReadOperator, loop: WhileLoop, reader: TfliteReader) -> None:
        super().__init__(call)
        self.loop, self.reader = loop, reader

    def converted(self, ops_of: OpsOf) -> list[Op]:
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
        return [*self.ops, made, *self.behind(ys)]

    def operand(self, number: int) -> Value:
        """Returns an operand of the loop."""
        return self.call.operand(number)

    def sequence(self, element: Element) -> Value:
        """Returns a tensor with the elements of all steps along its first axis."""
        x, axis, numbers = self.operand(element.operand), element.axis, element.numbers
        if numbers.shape[1] > 1:
            shape = (*x.shape[:axis], *numbers.shape, *x.shape[axis + 1 :])
            x = self.add(Gather, "steps", shape, x, x=x, indices=self.numbers(numbers), axis=axis)
        if axis:
            order = (axis, *(a for a in range(x.type.rank) if a != axis))
            x = self.transpose(x, order, "steps")
        if numbers.shape[1] > 1:
            return x
        return self.gather_slices(x, numbers[:, 0])

    def gather_slices(self, x: Value, numbers: Array) -> Value:
        """Returns the slices of the first axis at these indices."""
        shape = (len(numbers), *x.shape[1:])
        pace = int(numbers[1] - numbers[0]) if len(numbers) > 1 else 1
        if (np.diff(numbers) == pace).all() and abs(pace) == 1:
            if shape != x.shape:
                x = self.cut(x, 0, int(numbers.min()), len(numbers), "steps")
            return self.flip(x, 0, "steps") if pace < 0 else x
        return self.gather(x, self.numbers(numbers), "steps")

    def reshaped(self, x: Value, shape: Shape) -> Value:
        """Returns a value in another shape."""
        if x.is_constant and x.shape != shape:
            return constant(self.call.fresh(x.name), x.constant.reshape(shape), x.type.quant)
        return self.reshape(x, shape)

    def require_no_states(self) -> None:
        """Raises if the body has states."""
        variables = self.reader.variables
        if variables.held or variables.kept or variables.called:
            rule = "the body of a loop has no variables, and no layers that remember"
            raise self.call.refuse(
                rule, f"{len(variables.held) + len(variables.kept) + len(variables.called)} of them"
            )

    def result_of(self, value: Value, is_row: bool) -> Value:
        """Returns the scan's result for an output of its step."""
        shape = (self.loop.count, *value.shape) if is_row else value.shape
        name = self.call.fresh(f"{value.name}/all" if is_row else f"{value.name}/last")
        return Value(name, dataclasses.replace(value.type, shape=shape))

    def behind(self, ys: list[Value]) -> list[Op]:
        """Returns the ops that compute the results of WHILE."""
        self.ops = []
        loop, outputs = self.loop, self.call.outputs
        for rows, y in zip(loop.rows, ys, strict=False):
            self.reshape(self.list_with_rows(rows, y), outputs[rows.operand].shape, outputs[rows.operand])
        lasts = dict(zip(loop.carried, ys[len(loop.rows) :], strict=True))
        for number in (*loop.carried, *loop.same):
            self.reshape(lasts[loop.same.get(number, number)], outputs[number].shape, outputs[number])
        for number, values in loop.counted.items():
            self.call.bind(outputs[number], constant(outputs[number].name, values))
        for number in loop.kept:
            self.call.rename(outputs[number], self.operand(number))
        return self.ops

    def list_with_rows(self, rows: LoopRows, stacked: Value) -> Value:
        """Returns a list with the written rows in their places, and other rows unchanged."""
        y, count = self.call.outputs[rows.operand], self.loop.count
        stacked = self.reshaped(stacked, (count, *y.shape[1:]))
        written = {int(row): step for step, row in enumerate(rows.numbers)}
        if len(written) < y.shape[0]:
            before = self.operand(rows.operand)
            stacked = self.concat((stacked, before), 0, "both")
        numbers = np.array([written.get(row, count + row) for row in range(y.shape[0])])
        return self.gather_slices(stacked, numbers)
