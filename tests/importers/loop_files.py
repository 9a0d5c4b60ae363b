# SPDX-License-Identifier: Apache-2.0
"""TFLite files with a WHILE, as converters write layers over time: a counter, slices that it chooses, a list that is filled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from streaming_file import Part, StreamingFile

from pillion.ir.types import Array
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import write_flatbuffer
from pillion.schemas.tflite import ElementType

STATE = (1 / 128, 0)
"""The scale and zero point of a hyperbolic tangent."""


@dataclass
class LoopFile:
    """A recurrent net of int8. `reads` says how a step finds its element, `writes` how it puts its row away: a list of `length` rows, or
    only the last one. `pace` and `first` are those of the counter; `second` adds a value that is carried without a matrix."""

    steps: int = 7
    inputs: int = 5
    cells: int = 4
    batch: int = 1
    reads: str = "gather"
    writes: str = "concatenation"
    first: int = 0
    pace: int = 1
    condition: str = "LESS"
    length: int = 0
    second: bool = False
    invariant: bool = False
    zero: int = 3
    seed: int = 0
    change: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.file = StreamingFile(self.seed)
        self.file.main.graph.operators.clear()
        self.file.codes.clear()
        self.cond, self.body = (Part(self.file, tflite.SubGraph(name=name)) for name in ("cond", "body"))
        self.rng = self.file.rng

    @property
    def limit(self) -> int:
        """What the counter is compared with."""
        end = self.first + self.pace * self.steps
        return end - self.pace if self.condition.endswith("EQUAL") else end

    @property
    def shape(self) -> tuple[int, ...]:
        """The input: time first where it is gathered, otherwise behind the samples."""
        rows = max(self.rows) + 1
        return (
            (rows, self.batch, self.inputs)
            if self.reads in ("gather", "window")
            else (self.batch, rows, self.inputs)
        )

    @property
    def rows(self) -> list[int]:
        """The values of the counter."""
        return [self.first + self.pace * step for step in range(self.steps)]

    def bytes(self) -> bytes:
        """The whole file."""
        main, scale = self.file.main, 0.05
        x = main.quantized(self.shape, scale, self.zero, name="x")
        graph = main.graph
        graph.inputs = [x]
        states = [main.constant(np.full((self.batch, self.cells), 5, np.int8), quantization=_quant(*STATE))]
        if self.second:
            c = main.quantized((self.batch, self.cells), 1 / 16, 1, name="c")
            graph.inputs = [*graph.inputs, c]
            states.append(c)
        counter = main.constant(np.array(self.first, np.int32))
        length = self.length or max(self.rows) + 1
        size = 1 if self.writes == "last" else length
        rows = self.rng.integers(-9, 9, (size, self.batch, self.cells)).astype(np.int8)
        listed = main.constant(rows, quantization=_quant(*STATE))
        operands = [counter, listed, *states, x]
        if self.invariant:
            extra = main.quantized((self.batch, self.cells), *STATE, name="extra")
            graph.inputs = [*graph.inputs, extra]
            operands.append(extra)
        self._condition(len(operands))
        self._body(size)
        results = [self._like(n) for n in operands]
        options = tflite.WhileOptions(cond_subgraph_index=1, body_subgraph_index=2)
        main.add("WHILE", operands, results, options)
        graph.outputs = [results[1], results[2]]
        return self.packed()

    def packed(self) -> bytes:
        """The file as it is by now."""
        numbers = map(tflite.OPERATOR_NUMBERS.__getitem__, self.file.codes)
        codes = [tflite.OperatorCode(builtin_code=n, deprecated_builtin_code=min(n, 127)) for n in numbers]
        parts = [self.file.main.graph, self.cond.graph, self.body.graph]
        model = tflite.Model(version=3, operator_codes=codes, subgraphs=parts, buffers=self.file.buffers)
        return write_flatbuffer(model, tflite.IDENTIFIER)

    def _like(self, number: int) -> int:
        held = self.file.main.graph.tensors[number]
        return self.file.main.tensor(tuple(held.shape), type=held.type, quantization=held.quantization)

    def _inputs(self, part: Part) -> list[int]:
        """The inputs of a subgraph: the same types as the operands of WHILE."""
        shapes: list[tuple[tuple[int, ...], Any]] = [((), None), (self._list_shape(), STATE)]
        shapes.append(((self.batch, self.cells), STATE))
        shapes += [((self.batch, self.cells), (1 / 16, 1))] * self.second
        shapes.append((self.shape, (0.05, self.zero)))
        shapes += [((self.batch, self.cells), STATE)] * self.invariant
        part.graph.inputs = [
            part.tensor(shape, type=ElementType.INT32) if quant is None else part.quantized(shape, *quant)
            for shape, quant in shapes
        ]
        return list(part.graph.inputs)

    def _list_shape(self) -> tuple[int, ...]:
        length = 1 if self.writes == "last" else self.length or max(self.rows) + 1
        return (length, self.batch, self.cells)

    def _condition(self, count: int) -> None:
        part = self.cond
        counter = self._inputs(part)[0]
        made = part.tensor((), type=ElementType.BOOL)
        part.add(self.condition, [counter, part.constant(np.array(self.limit, np.int32))], [made])
        part.graph.outputs = [made]

    def _body(self, size: int) -> None:
        part = self.body
        counter, listed, h, *rest = self._inputs(part)
        c, x = (rest[0], rest[1]) if self.second else (None, rest[0])
        later = part.tensor((), type=ElementType.INT32)
        pace = part.constant(np.array(abs(self.pace), np.int32))
        code, options = ("ADD", tflite.AddOptions()) if self.pace > 0 else ("SUB", tflite.SubOptions())
        part.add(code, [counter, pace], [later], options)
        element = self._element(part, x, counter)
        both = (
            self._connected(part, element, self.inputs, 0.05),
            self._connected(part, h, self.cells, STATE[0]),
        )
        added = self._sum(part, *both)
        if self.invariant:
            added = self._sum(part, added, rest[-1])
        new = part.quantized((self.batch, self.cells), *STATE)
        part.add("TANH", [added], [new])
        carried = [new]
        if c is not None:
            next_c = part.quantized((self.batch, self.cells), 1 / 16, 1)
            part.add("ADD", [c, new], [next_c], tflite.AddOptions())
            mixed = part.quantized((self.batch, self.cells), *STATE)
            part.add("MUL", [next_c, new], [mixed], tflite.MulOptions())
            carried, new = [mixed, next_c], mixed
        row = part.quantized((1, self.batch, self.cells), *STATE)
        shape = part.constant(np.array([1, self.batch, self.cells], np.int32))
        part.add("RESHAPE", [new, shape], [row], tflite.ReshapeOptions(new_shape=[1, self.batch, self.cells]))
        written = self._written(part, listed, row, counter)
        part.graph.outputs = [later, written, *carried, x, *([rest[-1]] if self.invariant else [])]

    def _connected(self, part: Part, x: int, features: int, scale: float) -> int:
        data = self.rng.integers(-127, 128, (self.cells, features)).astype(np.int8)
        finer = float(np.float32(self.rng.uniform(0.003, 0.02)))
        weights = part.constant(data, quantization=_quant(finer, 0))
        numbers = self.rng.integers(-900, 900, self.cells).astype(np.int32)
        bias = part.constant(numbers, quantization=_quant(float(np.float32(finer) * np.float32(scale)), 0))
        y = part.quantized((self.batch, self.cells), 0.031, -7)
        part.add("FULLY_CONNECTED", [x, weights, bias], [y], tflite.FullyConnectedOptions())
        return y

    def _sum(self, part: Part, a: int, b: int) -> int:
        y = part.quantized((self.batch, self.cells), 0.043, 11)
        part.add("ADD", [a, b], [y], tflite.AddOptions())
        return y

    def _joined(self, part: Part, counter: int, where: int, rest: list[int]) -> int:
        """The counter among constants."""
        one = part.tensor((1,), type=ElementType.INT32)
        part.add("RESHAPE", [counter, part.constant(np.array([1], np.int32))], [one], tflite.ReshapeOptions())
        parts = [part.constant(np.array(rest[:where], np.int32))] if where else []
        parts.append(one)
        parts += [part.constant(np.array(rest[where:], np.int32))] if rest[where:] else []
        made = part.tensor((len(rest) + 1,), type=ElementType.INT32)
        part.add("CONCATENATION", parts, [made], tflite.ConcatenationOptions(axis=0))
        return made

    def _element(self, part: Part, x: int, counter: int) -> int:
        flat, quant = (self.batch, self.inputs), (0.05, self.zero)
        if self.reads == "gather":
            y = part.quantized(flat, *quant)
            part.add("GATHER", [x, counter], [y], tflite.GatherOptions(axis=0))
            return y
        if self.reads == "window":  # the sum of two neighbours
            wide = part.quantized((2, *flat), *quant)
            size = part.constant(np.array([2, *flat], np.int32))
            part.add(
                "SLICE", [x, self._joined(part, counter, 0, [0, 0]), size], [wide], tflite.SliceOptions()
            )
            y = part.quantized(flat, *quant)
            axes = part.constant(np.array([0], np.int32))
            part.add("MEAN", [wide, axes], [y], tflite.ReducerOptions())
            return y
        if self.reads == "slice":
            y = part.quantized((self.batch, 1, self.inputs), *quant)
            size = part.constant(np.array([self.batch, 1, self.inputs], np.int32))
            part.add("SLICE", [x, self._joined(part, counter, 1, [0, 0]), size], [y], tflite.SliceOptions())
            made = part.quantized(flat, *quant)
            part.add("RESHAPE", [y, part.constant(np.array(flat, np.int32))], [made], tflite.ReshapeOptions())
            return made
        y = part.quantized(flat, *quant)
        begin, end = (self._joined(part, n, 1, [0, 0]) for n in (counter, self._later(part, counter)))
        options = tflite.StridedSliceOptions(begin_mask=5, end_mask=5, shrink_axis_mask=2)
        steps = part.constant(np.array([1, 1, 1], np.int32))
        part.add("STRIDED_SLICE", [x, begin, end, steps], [y], options)
        return y

    def _later(self, part: Part, counter: int) -> int:
        made = part.tensor((), type=ElementType.INT32)
        one = part.constant(np.array(1, np.int32))
        part.add("ADD", [counter, one], [made], tflite.AddOptions())
        return made

    def _written(self, part: Part, listed: int, row: int, counter: int) -> int:
        if self.writes == "last":
            return row
        made = part.quantized(self._list_shape(), *STATE)
        if self.writes == "update":
            begin = self._joined(part, counter, 0, [0, 0])
            part.add("DYNAMIC_UPDATE_SLICE", [listed, row, begin], [made], tflite.DynamicUpdateSliceOptions())
            return made
        nothing, all_of_it = (part.constant(np.array([n] * 3, np.int32)) for n in (0, -1))
        open_ended = {"shape_signature": [-1, -1, -1]}
        head, tail = (part.quantized((1, 1, 1), *STATE, **open_ended) for _ in range(2))
        size = self._joined(part, counter, 0, [-1, -1])
        behind = self._joined(part, self._later(part, counter), 0, [0, 0])
        part.add("SLICE", [listed, nothing, size], [head], tflite.SliceOptions())
        part.add("SLICE", [listed, behind, all_of_it], [tail], tflite.SliceOptions())
        part.add("CONCATENATION", [head, row, tail], [made], tflite.ConcatenationOptions(axis=0))
        return made


def _quant(scale: float, zero: int) -> tflite.Quantization:
    return tflite.Quantization(scale=[scale], zero_point=[zero])


def noise(shape: tuple[int, ...], seed: int) -> Array:
    """Random int8, now and then at the ends alone."""
    rng = np.random.default_rng(seed)
    return (
        rng.choice([-128, 127], shape).astype(np.int8)
        if seed % 4 == 3
        else rng.integers(-128, 128, shape, np.int8)
    )
