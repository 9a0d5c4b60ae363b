# SPDX-License-Identifier: Apache-2.0
"""TFLite files with the `Signal` operators of TensorFlow Lite Micro: single ones, and a front end of all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from detection_file import options

from pillion.ir.types import Array
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import Table, write_flatbuffer
from pillion.schemas.tflite import ElementType

INT16, INT32, UINT32, UINT64 = (
    ElementType.INT16,
    ElementType.INT32,
    ElementType.UINT32,
    ElementType.UINT64,
)
SMOOTHING = {
    **{"alternate_one_minus_smoothing": 15401, "alternate_smoothing": 983, "clamping": False},
    **{"min_signal_remaining": 819, "one_minus_smoothing": 15975, "smoothing": 409},
    **{"smoothing_bits": 10, "spectral_subtraction_bits": 14},
}


class SignalFile:
    """A file under construction: each operator gets new tensors for its results."""

    def __init__(self) -> None:
        self.graph, self.buffers = tflite.SubGraph(name="main"), [tflite.Buffer()]
        self.codes: list[tuple[int, str]] = []

    def tensor(self, shape: tuple[int, ...], kind: ElementType = INT16, **fields: Any) -> int:
        name, empty = f"t{len(self.graph.tensors)}", tflite.Quantization()
        tensor = tflite.Tensor(name=name, shape=list(shape), type=kind, quantization=empty, **fields)
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def input(self, *shape: int, kind: ElementType = INT16) -> int:
        self.graph.inputs = [*self.graph.inputs, self.tensor(shape, kind)]
        return self.graph.inputs[-1]

    def constant(self, data: Array) -> int:
        self.buffers.append(tflite.Buffer(data=np.ascontiguousarray(data).reshape(-1).view(np.uint8)))
        return self.tensor(data.shape, ElementType[data.dtype.name.upper()], buffer=len(self.buffers) - 1)

    def add(
        self, code: str, inputs: list[int], *results: int, built_in: Table | None = None, **named: Any
    ) -> int:
        """Adds an operator and returns its first result; `Signal` ones say how they work by `named` options."""
        is_custom = code.startswith("Signal")
        number = tflite.OPERATOR_NUMBERS["CUSTOM" if is_custom else code]
        row = number, code if is_custom else ""
        if row not in self.codes:
            self.codes.append(row)
        operator = tflite.Operator(opcode_index=self.codes.index(row), inputs=inputs, outputs=list(results))
        operator.options = built_in
        operator.options_type = tflite.OPTION_NUMBERS[type(built_in)] if built_in is not None else 0
        operator.custom_options = options(**named) if is_custom else None
        self.graph.operators.append(operator)
        return results[0]

    def bytes(self, *outputs: int) -> bytes:
        self.graph.outputs = list(outputs)
        codes = [
            tflite.OperatorCode(builtin_code=n, deprecated_builtin_code=min(n, 127), custom_code=name)
            for n, name in self.codes
        ]
        model = tflite.Model(version=3, operator_codes=codes, subgraphs=[self.graph], buffers=self.buffers)
        return write_flatbuffer(model, tflite.IDENTIFIER)


def bands(count: int, bins: int, seed: int = 0) -> list[Array]:
    """Weights, complements, first energies, first weights and widths: bands that overlap by halves, four weights at a time."""
    rng = np.random.default_rng(seed)
    ends = np.unique(np.geomspace(4, bins, count + 2).astype(np.int64))
    widths = np.diff(np.pad(ends, (0, count + 2 - len(ends)), mode="edge"))
    weight_starts = np.concatenate([[0], np.cumsum(-(-widths // 4) * 4)[:-1]])
    weights = rng.integers(0, 4097, int(weight_starts[-1] + widths[-1]) + 3)
    starts = np.minimum(ends[0] + np.concatenate([[0], np.cumsum(widths)[:-1]]), bins - widths)
    return [part.astype(np.int16) for part in (weights, 4096 - weights, starts, weight_starts, widths)]


def gains(seed: int = 0) -> Array:
    """A table of gains that fall: pieces of parabolas, and three numbers in front of them."""
    rng, table = np.random.default_rng(seed), np.zeros(125, np.int16)
    table[:6] = 31000, 30000, 29000, 28500, -900, -20
    for piece in range(29):
        level = int(28000 * 0.83**piece)
        table[6 + 4 * piece : 9 + 4 * piece] = level, -int(level * 0.15), int(rng.integers(-30, 30))
    return table


def front_end(samples: int = 480, points: int = 512, channels: int = 40) -> bytes:
    """Features of a frame, in the order of TFLM's audio preprocessor, with 8 bits at the end."""
    file, bins = SignalFile(), points // 2 + 1
    window = np.round(4096 * (0.5 - 0.5 * np.cos(2 * np.pi * (np.arange(samples) + 0.5) / samples)))
    x = file.input(1, samples)
    y = file.add(
        "SignalWindow", [x, file.constant(window.astype(np.int16))], file.tensor((1, samples)), shift=12
    )
    y = file.add("RESHAPE", [y, file.constant(np.array([-1], np.int32))], file.tensor((samples,)))
    bits = file.tensor((), INT32)
    y = file.add("SignalFftAutoScale", [y], file.tensor((samples,)), bits)
    y = file.add("SignalRfft", [y], file.tensor((2 * bins,)), T=7, fft_length=points)
    y = file.add("SignalEnergy", [y], file.tensor((bins,), UINT32), start_index=5, end_index=bins - 16)
    y = file.add("CAST", [y], file.tensor((bins,), INT32))
    limits = [file.constant(np.array([n], np.int32)) for n in (5, bins - 16, 1)]
    y = file.add(
        "STRIDED_SLICE", [y, *limits], file.tensor((bins - 21,), INT32), built_in=tflite.StridedSliceOptions()
    )
    zeros = [file.constant(np.zeros(n, np.int32)) for n in (5, 16)]
    joined = tflite.ConcatenationOptions(axis=0)
    y = file.add("CONCATENATION", [zeros[0], y, zeros[1]], file.tensor((bins,), INT32), built_in=joined)
    y = file.add("CAST", [y], file.tensor((bins,), UINT32))
    tables = [file.constant(part) for part in bands(channels, bins)]
    y = file.add("SignalFilterBank", [y, *tables], file.tensor((channels,), UINT64), num_channels=channels)
    y = file.add("SignalFilterBankSquareRoot", [y, bits], file.tensor((channels,), UINT32))
    noise, named = file.tensor((channels,), UINT32), {**SMOOTHING, "num_channels": channels}
    y = file.add("SignalFilterBankSpectralSubtraction", [y], file.tensor((channels,), UINT32), noise, **named)
    y = file.add(
        "SignalPCAN", [y, noise, file.constant(gains())], file.tensor((channels,), UINT32), snr_shift=6
    )
    y = file.add(
        "SignalFilterBankLog", [y], file.tensor((channels,)), input_correction_bits=3, output_scale=64
    )
    y = file.add("CAST", [y], file.tensor((channels,), INT32))
    for code, number in (
        ("MUL", 256),
        ("ADD", 333),
        ("DIV", 666),
        ("ADD", -128),
        ("MINIMUM", 127),
        ("MAXIMUM", -128),
    ):
        y = file.add(code, [y, file.constant(np.array(number, np.int32))], file.tensor((channels,), INT32))
    return file.bytes(file.add("CAST", [y], file.tensor((channels,), ElementType.INT8)))


def sound(samples: int, steps: int, seed: int = 0) -> list[Array]:
    """Frames of noise from silence to the ends of the range, of tones, of both ends, and of the least number alone."""
    rng, frames = np.random.default_rng(seed), []
    for step in range(steps):
        noise = rng.integers(-(2 ** (step % 16)), 2 ** (step % 16), samples)
        tone = np.round(rng.uniform(0, 32767) * np.sin(np.arange(samples) * rng.uniform(0.01, 3)))
        ends = np.where(rng.random(samples) < 0.5, -32768, 32767)
        rare = np.where(rng.random(samples) < 0.01, -32768, noise)
        frames.append((noise, tone, ends, rare, 0 * noise - 32768)[(0, 1, 0, 3, 1, 2, 0, 4)[step % 8]])
    return [np.clip(frame, -32768, 32767).astype(np.int16) for frame in frames]
