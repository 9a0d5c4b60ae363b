# SPDX-License-Identifier: Apache-2.0
"""Reads quantized uint8 tensors as int8, with numbers and zero points reduced by 128; real values stay the
same. The model's inputs and outputs keep uint8, with a conversion op."""

from __future__ import annotations

from collections.abc import Iterator

from pillion.codecs.tflite.exact import as_uint8
from pillion.importers.tflite.model import TfliteReader
from pillion.ir.op import Op
from pillion.ir.types import DType, Value
from pillion.ops.formats import Requantize


class Uint8Boundary:
    """The uint8 inputs and outputs of a model, and their conversions."""

    def __init__(self, reader: TfliteReader) -> None:
        self.reader = reader
        self.outer: dict[int, Value] = {}
        for number in dict.fromkeys((*reader.subgraph.inputs, *reader.subgraph.outputs)):
            value = reader.value(number)
            if value in reader.unsigned and not value.is_constant:
                inner = Value(reader.names.fresh(f"{value.name}_int8"), value.type)
                reader.bind(value, inner)
                self.outer[number] = Value(value.name, as_uint8(value.type))

    def inputs(self) -> tuple[Value, ...]:
        """Returns the inputs in their type in the file."""
        return tuple(self.outer.get(n) or self.reader.value(n) for n in self.reader.subgraph.inputs)

    def input_conversions(self) -> Iterator[Op]:
        """Yields the ops that convert uint8 inputs to int8."""
        for number in dict.fromkeys(self.reader.subgraph.inputs):
            if number in self.outer:
                yield Requantize(x=self.outer[number], y=self.reader.value(number), source="uint8 input")

    def converted_outputs(self) -> tuple[tuple[Value, ...], list[Op]]:
        """Returns the outputs in their type in the file, and the ops that convert int8 to uint8."""
        graph, ops = self.reader.subgraph, list[Op]()
        values = {number: self.reader.value(number) for number in graph.outputs}
        for number, inner in values.items():
            outer = self.outer.get(number)
            if outer is not None:
                name = self.reader.names.fresh(outer.name) if number in graph.inputs else outer.name
                values[number] = Value(name, outer.type)
                ops.append(Requantize(x=inner, y=values[number], to=DType.UINT8, source="uint8 output"))
        return tuple(values[n] for n in graph.outputs), ops
