# SPDX-License-Identifier: Apache-2.0
"""TFLite files of several operators, whose tensors are uint8, int8 or float, and LiteRT's answers to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pillion.ir.types import Array
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import Table, write_flatbuffer
from pillion.schemas.tflite import ElementType, Padding

KINDS = {"int8": ElementType.INT8, "uint8": ElementType.UINT8, "float32": ElementType.FLOAT32}


class NetFile:
    """A file under construction: tensors by their numbers, operators in running order."""

    def __init__(self, seed: int = 0, dtype: str = "int8") -> None:
        self.rng, self.dtype = np.random.default_rng(seed), dtype
        self.graph = tflite.SubGraph(name="main")
        self.codes: dict[str, int] = {}
        self.buffers = [tflite.Buffer()]

    def tensor(
        self,
        *shape: int,
        dtype: str = "",
        scale: float = 0.05,
        zero: int | None = None,
        name: str = "",
        **fields: Any,
    ) -> int:
        """A new tensor; whole numbers have their zero point in the middle if none is said."""
        kind = dtype or self.dtype
        zero = (128 if kind == "uint8" else 0) if zero is None else zero
        quant = None if kind == "float32" else tflite.Quantization(scale=[scale], zero_point=[zero])
        given = {"name": name or f"t{len(self.graph.tensors)}", "type": KINDS[kind], "quantization": quant}
        self.graph.tensors.append(tflite.Tensor(shape=list(shape), **(given | fields)))
        return len(self.graph.tensors) - 1

    def input(self, *shape: int, **fields: Any) -> int:
        self.graph.inputs = [*self.graph.inputs, self.tensor(*shape, **fields)]
        return self.graph.inputs[-1]

    def constant(self, data: Any, **fields: Any) -> int:
        """A constant of the type that its data have."""
        data = np.asarray(data, order="C")
        self.buffers.append(tflite.Buffer(data=data.reshape(-1).view(np.uint8)))
        kind = ElementType[data.dtype.name.upper()]
        made = {"type": kind, "buffer": len(self.buffers) - 1, "quantization": None} | fields
        return self.tensor(*data.shape, **made)

    def add(self, code: str, inputs: list[int], y: int, options: Table | None = None) -> int:
        """An operator; gives its result."""
        operator = tflite.Operator(inputs=inputs, outputs=[y], options=options)
        operator.opcode_index = self.codes.setdefault(code, len(self.codes))
        operator.options_type = tflite.OPTION_NUMBERS[type(options)] if options is not None else 0
        self.graph.operators.append(operator)
        return y

    def shape(self, tensor: int) -> tuple[int, ...]:
        return tuple(self.graph.tensors[tensor].shape)

    def quantized(self, x: int, dtype: str, scale: float = 0.05, zero: int | None = None) -> int:
        """What QUANTIZE makes of a tensor."""
        y = self.tensor(*self.shape(x), dtype=dtype, scale=scale, zero=zero)
        return self.add("QUANTIZE", [x], y, tflite.QuantizeOptions())

    def bytes(self, *outputs: int) -> bytes:
        """The file with these outputs."""
        self.graph.outputs = list(outputs)
        codes = [
            tflite.OperatorCode(builtin_code=n, deprecated_builtin_code=min(n, 127))
            for n in map(tflite.OPERATOR_NUMBERS.__getitem__, self.codes)
        ]
        model = tflite.Model(
            version=3, operator_codes=codes, subgraphs=[self.graph], buffers=self.buffers, description="net"
        )
        return write_flatbuffer(model, tflite.IDENTIFIER)


def litert(raw: bytes) -> Any:
    """An interpreter with LiteRT's reference kernels."""
    module = pytest.importorskip("ai_edge_litert.interpreter")
    made = module.Interpreter(
        model_content=raw,
        experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF,
        num_threads=1,
        experimental_preserve_all_tensors=True,
    )
    made.allocate_tensors()
    return made


def answers(interpreter: Any, inputs: list[Array]) -> list[Array]:
    """What LiteRT makes of inputs."""
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def same_padding_conv(net: NetFile, x: int, out: int, activation: int = 1, **fields: Any) -> int:
    """A 3x3 convolution of int8 with a scale for each channel, and stride 2."""
    _, h, w, c = net.shape(x)
    scales = (0.002 + 0.006 * net.rng.random(out)).astype(np.float32).tolist()
    quant = tflite.Quantization(scale=scales, zero_point=[0] * out)
    weights = net.constant(net.rng.integers(-127, 128, (out, 3, 3, c)).astype(np.int8), quantization=quant)
    bias = net.constant(net.rng.integers(-900, 900, out).astype(np.int32))
    options = tflite.Conv2DOptions(padding=Padding.SAME, stride_h=2, stride_w=2, fused_activation=activation)
    y = net.tensor(1, -(-h // 2), -(-w // 2), out, **fields)
    return net.add("CONV_2D", [x, weights, bias], y, options)
