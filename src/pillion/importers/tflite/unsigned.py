# SPDX-License-Identifier: Apache-2.0
"""Quantized uint8 tensors are read as int8 ones whose numbers and zero points are smaller by 128: the real numbers stay the same.
Inputs and outputs of the model keep their type, behind an op that converts."""

from __future__ import annotations

from collections.abc import Iterator

from pillion.importers.tflite.model import UNSIGNED_BY, Reader
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, TensorType, Value
from pillion.ops.formats import Requantize


class Borders:
    """The inputs and outputs of a model that are uint8, and the ops between them and what the model computes with."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.outer: dict[int, Value] = {}
        for number in dict.fromkeys((*reader.subgraph.inputs, *reader.subgraph.outputs)):
            value = reader.value(number)
            if value in reader.unsigned and not value.is_constant:
                inner = Value(reader.names.fresh(f"{value.name}_int8"), value.type)
                reader.bind(value, inner)
                self.outer[number] = Value(value.name, as_uint8(value.type))

    def inputs(self) -> tuple[Value, ...]:
        """Gives the inputs as the file has them."""
        return tuple(self.outer.get(n) or self.reader.value(n) for n in self.reader.subgraph.inputs)

    def before(self) -> Iterator[Op]:
        """Gives the ops that make int8 of uint8 inputs."""
        for number in dict.fromkeys(self.reader.subgraph.inputs):
            if number in self.outer:
                yield Requantize(x=self.outer[number], y=self.reader.value(number), source="uint8 input")

    def after(self) -> tuple[tuple[Value, ...], list[Op]]:
        """Gives the outputs as the file has them, and the ops that make uint8 of int8 ones."""
        made: dict[int, Value] = {}
        ops: list[Op] = []
        for number in dict.fromkeys(self.reader.subgraph.outputs):
            made[number] = inner = self.reader.value(number)
            outer = self.outer.get(number)
            if outer is not None:
                is_input = number in self.reader.subgraph.inputs
                name = self.reader.names.fresh(outer.name) if is_input else outer.name
                made[number] = Value(name, outer.type)
                ops.append(Requantize(x=inner, y=made[number], to=DType.UINT8, source="uint8 output"))
        return tuple(made[n] for n in self.reader.subgraph.outputs), ops


def as_uint8(type: TensorType) -> TensorType:
    """Gives the type that a tensor has in the file."""
    quant = type.quant
    assert isinstance(quant, PerTensor)
    return TensorType(type.shape, DType.UINT8, PerTensor(quant.scale, quant.zero_point + UNSIGNED_BY))
