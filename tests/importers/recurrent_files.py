# SPDX-License-Identifier: Apache-2.0
"""TFLite files of layers that remember: an LSTM along time, and filters over time (SVDF)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from streaming_file import Part, StreamingFile

from pillion.ir.types import Array
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import write_flatbuffer
from pillion.schemas.tflite import Activation, ElementType


def _file(seed: int) -> StreamingFile:
    """A file of one subgraph."""
    file = StreamingFile(seed)
    file.main.graph.operators.clear()
    file.codes.clear()
    return file


def _bytes(file: StreamingFile) -> bytes:
    numbers = map(tflite.OPERATOR_NUMBERS.__getitem__, file.codes)
    codes = [tflite.OperatorCode(builtin_code=n, deprecated_builtin_code=min(n, 127)) for n in numbers]
    model = tflite.Model(version=3, operator_codes=codes, subgraphs=[file.main.graph], buffers=file.buffers)
    return write_flatbuffer(model, tflite.IDENTIFIER)


def _weights(part: Part, data: Array, scale: float) -> int:
    quant = tflite.Quantization(scale=[float(np.float32(scale))], zero_point=[0])
    return part.constant(data, quantization=quant)


def _state(part: Part, shape: tuple[int, ...], scale: float, name: str) -> int:
    quant = tflite.Quantization(scale=[scale], zero_point=[0])
    return part.tensor(shape, type=ElementType.INT16, quantization=quant, is_variable=True, name=name)


@dataclass
class LstmFile:
    """A file of one LSTM; `extra` are operands by their numbers that Keras leaves out."""

    batch: int = 1
    steps: int = 1
    inputs: int = 5
    cells: int = 4
    time_major: bool = False
    clip: float = 0.0
    exponent: int = -11
    zeros: tuple[int, int] = (3, -5)
    bias: int = 3000
    largest: float = 0.02
    seed: int = 0
    answers: float = 0.0071
    extra: tuple[int, ...] = ()

    def bytes(self) -> bytes:
        file = _file(self.seed)
        part, rng = file.main, file.rng
        outer = (self.steps, self.batch) if self.time_major else (self.batch, self.steps)
        x = part.quantized((*outer, self.inputs), 0.05, self.zeros[0], name="x")
        operands = [
            x,
            *(self._matrix(file, width) for width in [self.inputs] * 4 + [self.cells] * 4),
            -1,
            -1,
            -1,
        ]
        for _ in range(4):
            data = rng.integers(-self.bias, self.bias + 1, self.cells).astype(np.int32)
            operands.append(part.constant(data))
        h = part.quantized((self.batch, self.cells), 0.0071, self.zeros[1], is_variable=True, name="h")
        c = _state(part, (self.batch, self.cells), 2.0**self.exponent, "c")
        operands += [-1, -1, h, c, -1, -1, -1, -1]
        for number in self.extra:
            operands[number] = operands[1] if operands[number] == -1 else -1
        y = part.quantized((*outer, self.cells), self.answers, self.zeros[1], name="y")
        gate = tflite.Quantization(scale=[2.0**-12], zero_point=[0])
        made = [part.tensor((0,), type=ElementType.INT16, quantization=gate) for _ in range(4)]
        made.append(part.quantized((0,), 0.0071, self.zeros[1]))
        options = tflite.SequenceLstmOptions(
            fused_activation=Activation.TANH, cell_clip=self.clip, time_major=self.time_major
        )
        part.add("UNIDIRECTIONAL_SEQUENCE_LSTM", operands, [y], options)
        part.graph.operators[-1].intermediates = made
        part.graph.inputs, part.graph.outputs = [x], [y]
        return _bytes(file)

    def _matrix(self, file: StreamingFile, width: int) -> int:
        data = file.rng.integers(-127, 128, (self.cells, width)).astype(np.int8)
        return _weights(file.main, data, file.rng.uniform(self.largest / 5, self.largest))


@dataclass
class SvdfFile:
    """A file of filters over time."""

    batch: int = 1
    inputs: int = 5
    units: int = 4
    rank: int = 1
    length: int = 3
    zeros: tuple[int, int] = (3, -5)
    reach: int = 900
    has_bias: bool = True
    activation: int = Activation.RELU
    seed: int = 0

    def bytes(self) -> bytes:
        file = _file(self.seed)
        part, rng, filters = file.main, file.rng, self.units * self.rank
        x = part.quantized((self.batch, self.inputs), 0.05, self.zeros[0], name="x")
        feature = rng.integers(-127, 128, (filters, self.inputs)).astype(np.int8)
        time = rng.integers(-self.reach, self.reach + 1, (filters, self.length)).astype(np.int16)
        bias = rng.integers(-9000, 9001, self.units).astype(np.int32)
        given = part.constant(bias) if self.has_bias else -1
        memory = _state(part, (self.batch, filters * self.length), 0.0008, "memory")
        operands = [x, _weights(part, feature, 0.0113), _weights(part, time, 0.0011), given, memory]
        y = part.quantized((self.batch, self.units), 0.37, self.zeros[1], name="y")
        options = tflite.SvdfOptions(rank=self.rank, fused_activation=self.activation)
        part.add("SVDF", operands, [y], options)
        part.graph.inputs, part.graph.outputs = [x], [y]
        return _bytes(file)


def stream(shape: tuple[int, ...], steps: int, seed: int) -> list[list[Any]]:
    """Noise, then slow waves, then the ends of int8."""
    rng = np.random.default_rng(seed)
    made = rng.integers(-128, 128, (steps, *shape))
    third = steps // 3
    made[third : 2 * third] = np.round(
        100 * np.sin(np.arange(third) * 0.1).reshape(-1, *(1 for _ in shape)) + np.zeros(shape)
    )
    made[-3:] = rng.choice([-128, 127], (3, *shape))
    return [[one.astype(np.int8)] for one in made]
