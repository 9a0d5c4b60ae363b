# SPDX-License-Identifier: Apache-2.0
"""Reads WHILE: the body of a loop becomes the graph of a scan."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from pillion.codecs.tflite.read_operator import Reading, ReadOperator
from pillion.errors import PillionError
from pillion.importers.tflite.file_diagnosis import combined_error
from pillion.importers.tflite.loop_analysis import Element, LoopRows, WhileLoop, loop_of, subgraph_of
from pillion.importers.tflite.model import TfliteReader, has_open_size, tensor_of
from pillion.importers.tflite.op_chain import OpChain
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, Shape, Value, constant_value
from pillion.ops.scan import Scan
from pillion.schemas import tflite

OpsOf = Callable[[ReadOperator], list[Op]]
BodyOf = Callable[[ReadOperator, TfliteReader, tflite.SubGraph], Any]
"""Returns the body of a loop's scan: a graph, or its substitute while a float file is read."""


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


def int8_body(ops_of: OpsOf) -> BodyOf:
    """Returns a function that reads the step of a loop as a graph."""

    def body(call: ReadOperator, reader: TfliteReader, step: tflite.SubGraph) -> Graph:
        inputs = tuple(map(reader.value, step.inputs))
        ops = tuple(all_ops(reader, ops_of))
        states = (*reader.variables.held, *reader.variables.kept, *reader.variables.called)
        if states:
            rule = "the body of a loop has no variables, and no layers that remember"
            raise call.refuse(rule, f"{len(states)} of them")
        outputs = tuple(map(reader.value, step.outputs))
        return Graph("step", inputs, ops, outputs, Arithmetic.TFLITE).without_dead_ops()

    return body


def loop(body_of: BodyOf) -> Reading:
    """Returns the reader of a loop."""

    def row(call: ReadOperator) -> list[Op]:
        call = _with_shapes(call)
        while_loop, reader = loop_of(call)
        return _LoopConversion(call, while_loop).converted(reader, body_of)

    return row


def _with_shapes(call: ReadOperator) -> ReadOperator:
    """Returns the loop with the result shapes that the body returns, or the operands' shapes where the body leaves
    them open."""
    body = subgraph_of(call, call.options_as(tflite.WhileOptions).body_subgraph_index)
    if not len(body.outputs) == len(call.inputs) == len(call.outputs):
        raise call.refuse(
            "a loop hands on as much as it takes", f"{len(call.inputs)} and {len(body.outputs)}"
        )
    tensors = [tensor_of(body, number) for number in body.outputs]
    shapes = (
        call.operand(number).shape if has_open_size(tensor) else tuple(tensor.shape)
        for number, tensor in enumerate(tensors)
    )
    return dataclasses.replace(call, outputs=tuple(map(call.with_shape, call.outputs, shapes)))


class _LoopConversion(OpChain):
    """A loop under conversion."""

    def __init__(self, call: ReadOperator, loop: WhileLoop) -> None:
        super().__init__(call)
        self.loop = loop

    def converted(self, reader: TfliteReader, body_of: BodyOf) -> list[Op]:
        """Returns the ops before the scan, the scan, and the ops of its results."""
        loop, operand = self.loop, self.call.operand
        carried = [reader.value(n) for n in loop.step.inputs[len(loop.elements) :][: len(loop.carried)]]
        sequences = tuple(map(self.sequence, loop.elements))
        initial = tuple(
            self.reshaped(operand(n), to.shape) for n, to in zip(loop.carried, carried, strict=True)
        )
        body = body_of(self.call, reader, loop.step)
        ys = tuple(self.result_of(y, number < len(loop.rows)) for number, y in enumerate(body.outputs))
        self.ops.append(
            Scan(
                sequences=sequences,
                initial=initial,
                invariants=tuple(map(operand, loop.fixed)),
                ys=ys,
                body=body,
                count=loop.count,
                source=self.call.source,
            )
        )
        self.write_results(ys)
        return self.ops

    def sequence(self, element: Element) -> Value:
        """Returns a tensor with the elements of all steps along its first axis."""
        x, axis, numbers = self.call.operand(element.operand), element.axis, element.numbers
        is_window = numbers.shape[1] > 1
        x = self.gather(x, self.numbers(numbers), "steps", axis) if is_window else x
        if axis:
            x = self.transpose(x, (axis, *(a for a in range(x.type.rank) if a != axis)), "steps")
        return x if is_window else self.gather_slices(x, numbers[:, 0])

    def gather_slices(self, x: Value, numbers: Array) -> Value:
        """Returns the slices of the first axis at these indices."""
        pace = int(numbers[1] - numbers[0]) if len(numbers) > 1 else 1
        if (np.diff(numbers) != pace).any() or abs(pace) != 1:
            return self.gather(x, self.numbers(numbers), "steps")
        if len(numbers) != x.shape[0]:
            x = self.cut(x, 0, int(numbers.min()), len(numbers), "steps")
        return self.flip(x, 0, "steps") if pace < 0 else x

    def reshaped(self, x: Value, shape: Shape) -> Value:
        """Returns a value in another shape."""
        if x.is_constant and x.shape != shape:
            return constant_value(self.call.fresh(x.name), x.constant.reshape(shape), x.type.quant)
        return self.reshape(x, shape)

    def result_of(self, value: Value, is_row: bool) -> Value:
        """Returns the scan's result for an output of its step."""
        shape = (self.loop.count, *value.shape) if is_row else value.shape
        name = self.call.fresh(f"{value.name}/all" if is_row else f"{value.name}/last")
        return Value(name, dataclasses.replace(value.type, shape=shape))

    def write_results(self, ys: tuple[Value, ...]) -> None:
        """Adds the ops that compute the results of WHILE, and binds those that the loop does not compute."""
        loop, outputs = self.loop, self.call.outputs
        for rows, y in zip(loop.rows, ys, strict=False):
            self.reshape(self.list_with_rows(rows, y), outputs[rows.operand].shape, outputs[rows.operand])
        lasts = dict(zip(loop.carried, ys[len(loop.rows) :], strict=True))
        for number in (*loop.carried, *loop.same):
            self.reshape(lasts[loop.same.get(number, number)], outputs[number].shape, outputs[number])
        for number, values in loop.counted.items():
            self.call.bind(outputs[number], constant_value(outputs[number].name, values))
        for number in loop.kept:
            self.call.rename(outputs[number], self.call.operand(number))

    def list_with_rows(self, rows: LoopRows, stacked: Value) -> Value:
        """Returns a list with the written rows in their places, and other rows unchanged."""
        y, count = self.call.outputs[rows.operand], self.loop.count
        stacked = self.reshaped(stacked, (count, *y.shape[1:]))
        written = {int(row): step for step, row in enumerate(rows.numbers)}
        if len(written) < y.shape[0]:
            stacked = self.concat((stacked, self.call.operand(rows.operand)), 0, "both")
        numbers = np.array([written.get(row, count + row) for row in range(y.shape[0])])
        return self.gather_slices(stacked, numbers)
