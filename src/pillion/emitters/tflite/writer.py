# SPDX-License-Identifier: Apache-2.0
"""Writes the TFLite format: tensors, buffers, operator codes, quantization. It knows no op."""

from __future__ import annotations

import dataclasses

import numpy as np

from pillion.codecs.tflite.node import Node
from pillion.emitters.tflite.table import operators_of_op
from pillion.errors import PillionError
from pillion.ir.graph import Graph, UniqueNames
from pillion.ir.nibbles import pack_nibbles
from pillion.ir.state import State
from pillion.ir.types import Array, DType, PerChannel, PerTensor, Quant, UnknownScale, Value
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import Table, write_flatbuffer
from pillion.schemas.tflite import ElementType

MAX_RANK = 8
"""The largest rank that LiteRT's kernels handle safely."""

TYPES = {dtype: ElementType[dtype.name] for dtype in DType}


def write_file(graph: Graph) -> bytes:
    """Returns the TFLite file of a graph."""
    file = _SharedFileTables()
    main = _SubgraphWriter(file, graph, graph.name)
    initializer = _SubgraphWriter(file, graph, f"{graph.name}_begin") if graph.states else None
    if initializer is not None:
        main.operator("CALL_ONCE", [], [], tflite.CallOnceOptions(init_subgraph_index=1))
        for state in graph.states:
            initial = dataclasses.replace(state.before, data=state.initial)
            initializer.assign(initializer.handle(state), initial)
    handles = [main.handle(state) for state in graph.states]
    main.subgraph.inputs = [main.tensor(v) for v in graph.inputs]
    for state, handle in zip(graph.states, handles, strict=True):
        read = tflite.ReadVariableOptions()
        main.operator("READ_VARIABLE", [handle], [main.tensor(state.before)], read)
    for op in graph:
        for node in operators_of_op(op):
            main.add(node)
    for state, handle in zip(graph.states, handles, strict=True):
        main.assign(handle, state.after)
    main.subgraph.outputs = [main.tensor(v) for v in graph.outputs]
    return file.packed([main.subgraph, *([initializer.subgraph] if initializer else [])])


class _SharedFileTables:
    """The buffers and operator codes that all subgraphs of a file share."""

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self.buffers = [tflite.Buffer()]

    def buffer(self, data: Array) -> int:
        """Returns the number of a new buffer with an array's bytes."""
        self.buffers.append(self.pack(data))
        return len(self.buffers) - 1

    def pack(self, data: Array) -> tflite.Buffer:
        """Returns a buffer with an array's bytes."""
        raw = np.ascontiguousarray(data, data.dtype.newbyteorder("<")).reshape(-1).view(np.uint8)
        return tflite.Buffer(data=raw)

    def packed(self, subgraphs: list[tflite.SubGraph]) -> bytes:
        """Returns the bytes of the file."""
        model = tflite.Model(
            version=tflite.VERSION,
            operator_codes=[code_of(name) for name in self.codes],
            subgraphs=subgraphs,
            description="pillion",
            buffers=self.buffers,
        )
        return write_flatbuffer(model, tflite.IDENTIFIER)


class _SubgraphWriter:
    """Collects the tensors and operators of one subgraph."""

    def __init__(self, file: _SharedFileTables, graph: Graph, name: str) -> None:
        self.file = file
        self.kept = set(graph.sources) | {result for op in graph for result in op.results}
        self.names = UniqueNames([v.name for v in self.kept])
        self.tensors: dict[Value, int] = {}
        self.subgraph = tflite.SubGraph(name=name)

    def add(self, node: Node) -> None:
        """Adds an operator on values."""
        inputs = [-1 if v is None else self.tensor(v, v is node.int64) for v in node.inputs]
        self.operator(node.code, inputs, [self.tensor(v) for v in node.outputs], node.options)
        operator = self.subgraph.operators[-1]
        for value in node.variables:
            self.subgraph.tensors[self.tensor(value)].is_variable = True
        if node.intermediates:
            operator.intermediates = [self.marker(value) for value in node.intermediates]
        if node.custom:
            operator.custom_options = np.frombuffer(node.custom, np.uint8)

    def operator(self, code: str, inputs: list[int], outputs: list[int], options: Table | None) -> None:
        """Adds an operator on tensors."""
        operator = tflite.Operator(
            opcode_index=self.file.codes.setdefault(code, len(self.file.codes)),
            inputs=inputs,
            outputs=outputs,
        )
        if options is not None:
            operator.options_type = tflite.OPTION_NUMBERS[type(options)]
            operator.options = options
        self.subgraph.operators.append(operator)

    def handle(self, state: State) -> int:
        """Returns the handle tensor of a variable."""
        name = self.names.fresh(f"{state.name}_handle")
        self.subgraph.tensors.append(tflite.Tensor(type=ElementType.RESOURCE, name=name, has_rank=True))
        number = len(self.subgraph.tensors) - 1
        self.operator("VAR_HANDLE", [], [number], tflite.VarHandleOptions(shared_name=state.name))
        return number

    def assign(self, handle: int, value: Value) -> None:
        """Adds an assignment to a variable."""
        self.operator("ASSIGN_VARIABLE", [handle, self.tensor(value)], [], tflite.AssignVariableOptions())

    def tensor(self, value: Value, is_int64: bool = False) -> int:
        """Returns the number of a value's tensor, added at the first use; a constant may have int64 in the file."""
        if value not in self.tensors:
            self.tensors[value] = len(self.subgraph.tensors)
            self.subgraph.tensors.append(self.make_tensor(value))
            if is_int64:
                tensor, data = self.subgraph.tensors[-1], value.constant.astype(np.int64)
                tensor.type, self.file.buffers[tensor.buffer] = ElementType.INT64, self.file.pack(data)
        return self.tensors[value]

    def marker(self, value: Value) -> int:
        """Returns the number of an empty tensor that only has a scale."""
        quant = quantization_of(value.type.quant)
        name = self.names.fresh(value.name)
        self.subgraph.tensors.append(
            tflite.Tensor(shape=list(value.shape), type=TYPES[value.dtype], name=name, quantization=quant)
        )
        return len(self.subgraph.tensors) - 1

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
            buffer=self.file.buffer(stored_data(value)) if value.is_constant else 0,
            name=value.name if value in self.kept else self.names.fresh(value.name),
            quantization=quantization_of(value.type.quant),
            has_rank=True,
        )


def stored_data(value: Value) -> Array:
    """Returns the data of a constant as files have it."""
    return pack_nibbles(value.constant) if value.dtype is DType.INT4 else value.constant


def code_of(name: str) -> tflite.OperatorCode:
    """Returns the table's entry of an operator; numbers above 127 are in a second field, a custom operator's
    name in a third."""
    name, _, custom = name.partition(" ")
    number = tflite.OPERATOR_NUMBERS[name]
    return tflite.OperatorCode(
        deprecated_builtin_code=min(number, tflite.LAST_DEPRECATED_CODE),
        custom_code=custom,
        version=1,
        builtin_code=number,
    )


def quantization_of(quant: Quant | None) -> tflite.Quantization | None:
    """Returns scales and zero points in the file's form."""
    match quant:
        case PerTensor(scale, zero_point):
            return tflite.Quantization(scale=[scale], zero_point=[zero_point])
        case PerChannel(scales, axis):
            zeros = [0] * len(scales)
            return tflite.Quantization(scale=list(scales), zero_point=zeros, quantized_dimension=axis)
        case None | UnknownScale():  # `nodes` refuses ops on such tensors
            return None
