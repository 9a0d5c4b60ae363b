# SPDX-License-Identifier: Apache-2.0
"""TFLite files of streaming nets: operators with a few frames at a time, over variables that hold the frames before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from pillion.ir.types import Array
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import Table, write_flatbuffer
from pillion.schemas.tflite import Activation, ElementType, Padding


@dataclass
class Part:
    """A subgraph under construction."""

    file: StreamingFile
    graph: tflite.SubGraph

    def tensor(self, shape: tuple[int, ...], **fields: Any) -> int:
        name = f"{self.graph.name}{len(self.graph.tensors)}"
        self.graph.tensors.append(tflite.Tensor(shape=list(shape), **({"name": name} | fields)))
        return len(self.graph.tensors) - 1

    def quantized(self, shape: tuple[int, ...], scale: float, zero: int, **fields: Any) -> int:
        quant = tflite.Quantization(scale=[scale], zero_point=[zero])
        return self.tensor(shape, type=ElementType.INT8, quantization=quant, **fields)

    def constant(self, data: Array, **fields: Any) -> int:
        kind = ElementType[data.dtype.name.upper()]
        return self.tensor(data.shape, type=kind, buffer=self.file.buffer(data), **fields)

    def add(
        self, code: str, inputs: list[int], outputs: list[int], options: Table | None = None
    ) -> list[int]:
        operator = tflite.Operator(inputs=inputs, outputs=outputs, options=options)
        operator.opcode_index = self.file.codes.setdefault(code, len(self.file.codes))
        operator.options_type = tflite.OPTION_NUMBERS[type(options)] if options is not None else 0
        self.graph.operators.append(operator)
        return outputs

    def handle(self, name: str, container: str = "") -> int:
        made = self.tensor((), type=ElementType.RESOURCE)
        self.add("VAR_HANDLE", [], [made], tflite.VarHandleOptions(container=container, shared_name=name))
        return made

    def read(self, handle: int, shape: tuple[int, ...], scale: float, zero: int) -> int:
        made = self.quantized(shape, scale, zero)
        self.add("READ_VARIABLE", [handle], [made], tflite.ReadVariableOptions())
        return made

    def assign(self, handle: int, value: int) -> None:
        self.add("ASSIGN_VARIABLE", [handle, value], [], tflite.AssignVariableOptions())


@dataclass
class StreamingFile:
    """A file with a main subgraph and one that gives variables their first values."""

    seed: int = 0
    codes: dict[str, int] = field(default_factory=dict)
    buffers: list[tflite.Buffer] = field(default_factory=lambda: [tflite.Buffer()])

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.main = Part(self, tflite.SubGraph(name="main"))
        self.once = Part(self, tflite.SubGraph(name="NoOp"))
        self.main.add("CALL_ONCE", [], [], tflite.CallOnceOptions(init_subgraph_index=1))

    def buffer(self, data: Array) -> int:
        self.buffers.append(tflite.Buffer(data=np.ascontiguousarray(data).reshape(-1).view(np.uint8)))
        return len(self.buffers) - 1

    def variable(self, name: str, first: Array, scale: float, zero: int) -> int:
        """A handle of a variable that begins as this."""
        quant = tflite.Quantization(scale=[scale], zero_point=[zero])
        self.once.assign(self.once.handle(name), self.once.constant(first, quantization=quant))
        return self.main.handle(name)

    def bytes(self) -> bytes:
        codes = [
            tflite.OperatorCode(builtin_code=n, deprecated_builtin_code=min(n, 127))
            for n in map(tflite.OPERATOR_NUMBERS.__getitem__, self.codes)
        ]
        graphs = [self.main.graph, self.once.graph]
        return write_flatbuffer(
            tflite.Model(version=3, operator_codes=codes, subgraphs=graphs, buffers=self.buffers),
            tflite.IDENTIFIER,
        )

    # What streaming nets are made of.

    def frames(self, x: int, rows: int, kept: int, channels: int, scale: float, zero: int, name: str) -> int:
        """The last frames and the new ones, one under another; the last ones of these are kept."""
        shape = (1, kept, 1, channels)
        handle = self.variable(name, np.full(shape, zero, np.int8), scale, zero)
        before = self.main.read(handle, shape, scale, zero)
        window = self.main.quantized((1, kept + rows, 1, channels), scale, zero)
        self.main.add("CONCATENATION", [before, x], [window], tflite.ConcatenationOptions(axis=1))
        bounds = [self.main.constant(np.int32(n)) for n in ([0, -kept, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1])]
        later = self.main.quantized(shape, scale, zero)
        options = tflite.StridedSliceOptions(begin_mask=0b1101, end_mask=0b1111)
        self.main.add("STRIDED_SLICE", [window, *bounds], [later], options)
        self.main.assign(handle, later)
        return window

    def weights(self, shape: tuple[int, ...], axis: int) -> int:
        data = self.rng.integers(-127, 128, shape).astype(np.int8)
        count = shape[axis]
        scales = (0.002 + 0.006 * self.rng.random(count)).astype(np.float32).tolist()
        quant = tflite.Quantization(scale=scales, zero_point=[0] * count, quantized_dimension=axis)
        return self.main.constant(data, quantization=quant)

    def bias(self, count: int) -> int:
        return self.main.constant(self.rng.integers(-2000, 2000, count).astype(np.int32))

    def conv(self, x: int, rows: int, kernel: int, channels: int, out: int, stride: int = 1) -> int:
        y = self.main.quantized((1, (rows - kernel) // stride + 1, 1, out), 0.05, -128)
        operands = [x, self.weights((out, kernel, 1, channels), 0), self.bias(out)]
        options = tflite.Conv2DOptions(
            padding=Padding.VALID, stride_w=1, stride_h=stride, fused_activation=Activation.RELU
        )
        return self.main.add("CONV_2D", operands, [y], options)[0]

    def depthwise(self, x: int, rows: int, kernel: int, channels: int) -> int:
        y = self.main.quantized((1, rows - kernel + 1, 1, channels), 0.04, 7)
        operands = [x, self.weights((1, kernel, 1, channels), 3), self.bias(channels)]
        options = tflite.DepthwiseConv2DOptions(
            padding=Padding.VALID, stride_w=1, stride_h=1, depth_multiplier=1
        )
        return self.main.add("DEPTHWISE_CONV_2D", operands, [y], options)[0]


def wake_word(frames: int = 3, features: int = 40, seed: int = 0) -> bytes:
    """A net of the form in which wake words are streamed: each convolution over time has a variable with the frames before."""
    file = StreamingFile(seed)
    x = file.main.quantized((1, frames, features), 0.1, -128, name="features")
    image = file.main.quantized((1, frames, 1, features), 0.1, -128)
    shape = file.main.constant(np.int32([1, frames, 1, features]))
    file.main.add("RESHAPE", [x, shape], [image], tflite.ReshapeOptions(new_shape=[1, frames, 1, features]))
    window = file.frames(image, frames, 2, features, 0.1, -128, "stream")
    y = file.conv(window, frames + 2, 5, features, 24, stride=frames)
    for number, (kernel, channels, out) in enumerate([(5, 24, 17), (9, 17, 16)]):
        window = file.frames(y, 1, kernel - 1, channels, 0.05, -128, f"stream_{number + 1}")
        y = file.conv(file.depthwise(window, kernel, kernel, channels), 1, 1, channels, out)
    window = file.frames(y, 1, 5, 16, 0.05, -128, "stream_3")
    flat = file.main.quantized((1, 96), 0.05, -128)
    file.main.add(
        "RESHAPE",
        [window, file.main.constant(np.int32([1, 96]))],
        [flat],
        tflite.ReshapeOptions(new_shape=[1, 96]),
    )
    score, probability = file.main.quantized((1, 1), 0.03, 11), file.main.quantized((1, 1), 1 / 256, -128)
    whole = tflite.Quantization(scale=[0.004], zero_point=[0])
    weights = file.main.constant(file.rng.integers(-127, 128, (1, 96)).astype(np.int8), quantization=whole)
    file.main.add("FULLY_CONNECTED", [flat, weights, file.bias(1)], [score], tflite.FullyConnectedOptions())
    file.main.add("LOGISTIC", [score], [probability])
    file.main.graph.inputs, file.main.graph.outputs = [x], [score, probability]
    return file.bytes()


class InLiteRt:
    """A file in LiteRT's reference kernels, as it came."""

    def __init__(self, raw: bytes) -> None:
        litert = pytest.importorskip("ai_edge_litert.interpreter")
        resolver = litert.OpResolverType.BUILTIN_REF
        self.interpreter: Any = litert.Interpreter(
            model_content=raw, experimental_op_resolver_type=resolver, num_threads=1
        )
        self.interpreter.allocate_tensors()

    def step(self, *inputs: Array) -> tuple[Array, ...]:
        for detail, array in zip(self.interpreter.get_input_details(), inputs, strict=True):
            self.interpreter.set_tensor(detail["index"], array)
        self.interpreter.invoke()
        return tuple(self.interpreter.get_tensor(d["index"]) for d in self.interpreter.get_output_details())
