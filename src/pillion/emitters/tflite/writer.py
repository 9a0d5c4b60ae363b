# SPDX-License-Identifier: Apache-2.0
"""Knows the TFLite format: tensors, buffers, operator codes, quantization vectors. Knows no op."""

from __future__ import annotations

import numpy as np

from pillion.emitters.tflite.node import Node
from pillion.emitters.tflite.table import nodes
from pillion.errors import PillionError
from pillion.ir.graph import Graph, Names
from pillion.ir.types import Array, DType, PerChannel, PerTensor, Quant, Unscaled, Value
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import pack
from pillion.schemas.tflite import ElementType

MAX_RANK = 8
"""LiteRT's kernels leave their bounds beyond."""

TYPES = {dtype: ElementType[dtype.name] for dtype in DType}


def write(graph: Graph) -> bytes:
    """Gives the bytes of a whole TFLite file for a graph."""
    writer = _Writer(graph)
    for op in graph:
        for node in nodes(op):
            writer.add(node)
    return writer.finish()


class _Writer:
    """Collects tensors, buffers and operator codes while the operators are added."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.kept = set(graph.inputs) | {result for op in graph for result in op.results}
        self.names = Names([v.name for v in self.kept])
        self.tensors: dict[Value, int] = {}
        self.codes: dict[str, int] = {}
        self.subgraph = tflite.SubGraph(name=graph.name)
        self.buffers = [tflite.Buffer()]
        self.subgraph.inputs = [self.tensor(v) for v in graph.inputs]

    def add(self, node: Node) -> None:
        operator = tflite.Operator(
            opcode_index=self.codes.setdefault(node.code, len(self.codes)),
            inputs=[self.tensor(v) for v in node.inputs],
            outputs=[self.tensor(v) for v in node.outputs],
        )
        if node.options is not None:
            operator.options_type = tflite.OPTION_NUMBERS[type(node.options)]
            operator.options = node.options
        self.subgraph.operators.append(operator)

    def tensor(self, value: Value) -> int:
        """Gives the number of a value's tensor, made when the value is first seen."""
        if value not in self.tensors:
            self.tensors[value] = len(self.tensors)
            self.subgraph.tensors.append(self.make_tensor(value))
        return self.tensors[value]

    def make_tensor(self, value: Value) -> tflite.Tensor:
        if 0 in value.shape or value.type.rank > MAX_RANK:
            rule = f"tensors have at most {MAX_RANK} axes, none of them empty"
            raise PillionError(
                f"`{value.name}` cannot be a TFLite tensor",
                rule=rule,
                here=repr(value),
                help="reshape it in the model, or write a C project instead: -o FOLDER",
            )
        return tflite.Tensor(
            shape=list(value.shape),
            type=TYPES[value.dtype],
            buffer=self.buffer(value.constant) if value.is_constant else 0,
            name=value.name if value in self.kept else self.names.fresh(value.name),
            quantization=quantization_of(value.type.quant),
            has_rank=True,
        )

    def buffer(self, data: Array) -> int:
        raw = np.ascontiguousarray(data, data.dtype.newbyteorder("<")).reshape(-1).view(np.uint8)
        self.buffers.append(tflite.Buffer(data=raw))
        return len(self.buffers) - 1

    def finish(self) -> bytes:
        self.subgraph.outputs = [self.tensor(v) for v in self.graph.outputs]
        model = tflite.Model(
            version=tflite.VERSION,
            operator_codes=[code_of(name) for name in self.codes],
            subgraphs=[self.subgraph],
            description="pillion",
            buffers=self.buffers,
        )
        return pack(model, tflite.IDENTIFIER)


def code_of(name: str) -> tflite.OperatorCode:
    """Gives the table's entry for an operator; numbers above 127 stand in a second field."""
    number = tflite.OPERATOR_NUMBERS[name]
    return tflite.OperatorCode(
        deprecated_builtin_code=min(number, tflite.LAST_DEPRECATED_CODE), version=1, builtin_code=number
    )


def quantization_of(quant: Quant | None) -> tflite.Quantization | None:
    """Gives scales and zero points in the form of the file."""
    match quant:
        case PerTensor(scale, zero_point):
            return tflite.Quantization(scale=[scale], zero_point=[zero_point])
        case PerChannel(scales, axis):
            zeros = [0] * len(scales)
            return tflite.Quantization(scale=list(scales), zero_point=zeros, quantized_dimension=axis)
        case None | Unscaled():  # `nodes` refuses ops that make something of such tensors
            return None
