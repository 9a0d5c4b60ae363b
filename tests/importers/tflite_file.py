# SPDX-License-Identifier: Apache-2.0
"""TFLite files of one operator, and LiteRT's answer to them."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pytest

from pillion.importers.tflite import read
from pillion.ir.graph import Graph
from pillion.ir.types import Array
from pillion.ops.example_values import random_like
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import Table, write_flatbuffer
from pillion.schemas.tflite import ElementType


class File:
    """A TFLite file of one operator, built tensor by tensor."""

    def __init__(self, code: str, options: Table | None = None) -> None:
        self.code, self.options = code, options
        self.tensors: list[tflite.Tensor] = []
        self.buffers = [tflite.Buffer()]
        self.operands: list[int] = []
        self.inputs: list[int] = []
        self.outputs: list[int] = []

    def tensor(self, shape: tuple[int, ...], scale: float = 0.1, zero: int = 3, **fields: Any) -> int:
        quant = tflite.Quantization(scale=[scale], zero_point=[zero])
        named: dict[str, Any] = {
            "name": f"t{len(self.tensors)}",
            "type": ElementType.INT8,
            "quantization": quant,
        }
        self.tensors.append(tflite.Tensor(shape=list(shape), **(named | fields)))
        return len(self.tensors) - 1

    def input(self, *shape: int, **fields: Any) -> File:
        self.inputs.append(self.tensor(shape, **fields))
        self.operands.append(self.inputs[-1])
        return self

    def output(self, *shape: int, **fields: Any) -> File:
        self.outputs.append(self.tensor(shape, **fields))
        return self

    def constant(
        self, array: Array | list[Any], dtype: ElementType = ElementType.INT32, **fields: Any
    ) -> File:
        data = np.ascontiguousarray(array, np.dtype(dtype.name.lower()))
        self.buffers.append(tflite.Buffer(data=data.reshape(-1).view(np.uint8)))
        fields.setdefault("quantization", None)
        made = self.tensor(data.shape, type=dtype, buffer=len(self.buffers) - 1, **fields)
        self.operands.append(made)
        return self

    def absent(self) -> File:
        self.operands.append(-1)
        return self

    def model(self) -> tflite.Model:
        operator = tflite.Operator(inputs=self.operands, outputs=self.outputs, options=self.options)
        if self.options is not None:
            operator.options_type = tflite.OPTION_NUMBERS[type(self.options)]
        number = tflite.OPERATOR_NUMBERS[self.code]
        code = tflite.OperatorCode(builtin_code=number, deprecated_builtin_code=min(number, 127))
        subgraph = tflite.SubGraph(
            tensors=self.tensors, inputs=self.inputs, outputs=self.outputs, operators=[operator], name="main"
        )
        return tflite.Model(version=3, operator_codes=[code], subgraphs=[subgraph], buffers=self.buffers)

    def bytes(self) -> bytes:
        return write_flatbuffer(self.model(), tflite.IDENTIFIER)


def per_channel(count: int, axis: int) -> tflite.Quantization:
    scales = [0.01 * (1 + n) for n in range(count)]
    return tflite.Quantization(scale=scales, zero_point=[0] * count, quantized_dimension=axis)


def same_as_litert(raw: bytes, below: int = 0) -> Graph:
    """The graph, after it has answered like LiteRT's reference kernels. Whole numbers are from 0 and below a bound, if there is one."""
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    graph = read(raw)
    resolver = litert.OpResolverType.BUILTIN_REF
    interpreter = litert.Interpreter(model_content=raw, experimental_op_resolver_type=resolver, num_threads=1)
    interpreter.allocate_tensors()
    inputs = [random_like(v) for v in graph.inputs]
    inputs = [x % np.int32(below) if below and x.dtype == np.int32 else x for x in inputs]
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array.astype(detail["dtype"]))
    interpreter.invoke()
    for detail, wanted in zip(interpreter.get_output_details(), graph.reference(*inputs), strict=True):
        found = interpreter.get_tensor(detail["index"])
        assert (found.shape, found.tolist()) == (wanted.shape, wanted.tolist())
    return graph


RNG = np.random.default_rng(11)


def weights(*shape: int) -> Array:
    return RNG.integers(-127, 128, shape).astype(np.int8)


def differs_from_litert(graph: Graph, raw: bytes) -> str:
    """Says how LiteRT's reference kernels answer otherwise than a graph; nothing where both are equal. LiteRT runs in a process of its
    own: files that it does not check end it."""
    inputs = [random_like(v) for v in graph.inputs]
    wanted = graph.reference(*inputs)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_answer_of_litert, args=(raw, inputs, there))
    process.start()
    there.close()
    try:
        found = here.recv()
    except EOFError:
        found = "LiteRT ended"
    process.join()
    if isinstance(found, str):
        return found
    pairs = zip(found, wanted, strict=True)
    return "" if all((f.shape, f.tolist()) == (w.shape, w.tolist()) for f, w in pairs) else "other numbers"


def _answer_of_litert(raw: bytes, inputs: list[Array], there: Connection) -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    try:
        resolver = litert.OpResolverType.BUILTIN_REF
        interpreter = litert.Interpreter(
            model_content=raw, experimental_op_resolver_type=resolver, num_threads=1
        )
        interpreter.allocate_tensors()
        for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(detail["index"], array.astype(detail["dtype"]))
        interpreter.invoke()
        there.send([interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()])
    except (RuntimeError, ValueError) as error:
        there.send(str(error))
