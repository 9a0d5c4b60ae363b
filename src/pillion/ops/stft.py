# SPDX-License-Identifier: Apache-2.0
"""Spectra of 16-bit samples, by a real FFT in 32 bits: magnitudes, their squares, or real and imaginary parts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, op
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value, constant_value
from pillion.ops.example_values import make_op
from pillion.ops.frames import LEAST_POINTS, MOST_POINTS, MOST_SHIFTED, Frames

LARGEST_MULTIPLIER = 2**31 - 2
"""With it every product is below 2^30 in magnitude, which leaves room to round."""
MOST_LEFT = 62
"""The largest left shift; results saturate if it exceeds 16."""


@op("stft")
class Stft(Frames):
    """Computes spectra of frames of 16-bit samples: magnitudes with `power` 1, their squares with 2, and with 0 the pairs of
    real and imaginary parts.

    A frame is as long as `window`; the next one begins `hop` samples later. Zeros behind it fill the `points` of the FFT,
    64 to 2,048. Samples are shifted up as far as the frame allows, the FFT has 32 bits and divides in each stage, and the
    spectrum is shifted up again before the result is rounded."""

    real_constants: ClassVar[tuple[str, ...]] = ("window",)
    is_identity = False

    points: int = LEAST_POINTS
    power: int = 1

    @property
    def bins(self) -> int:
        """The frequencies of a spectrum."""
        return self.points // 2 + 1

    @property
    def scaling(self) -> tuple[int, int]:
        """The multiplier of a part or magnitude, in units of 2^-32, and the right shift behind it, in a frame that nothing
        shifts."""
        ratio = (self.unit_of_magnitudes if self.power else self.unit_of_parts) / self.y.scale
        mantissa, exponent = math.frexp(ratio)
        if not mantissa or exponent >= MOST_LEFT:
            raise ValueError(
                f"results in steps of {self.y.scale:.3g}, samples in steps of {self.x.scale:.3g}"
            )
        return min(round(math.ldexp(mantissa, 31)), LARGEST_MULTIPLIER), -1 - exponent

    def infer(self) -> TensorType:
        return TensorType((self.x.shape[0], self.frames, self.bins, *[2] * (not self.power)), self.y.dtype)

    def check(self) -> None:
        self.check_frames()
        if self.power not in (0, 1, 2):
            raise self.refuse(
                "results are magnitudes, squares or pairs", f"power {self.power}", "choose 1, 2 or 0"
            )
        if self.x.dtype is not DType.FLOAT32:
            self.check_integers()

    def check_scales(self, arithmetic: Arithmetic) -> None:
        _ = self.scaling

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        multiplier, right = self.scaling
        if self.power:
            values, shifts = self.magnitudes(operands[0], MOST_SHIFTED, self.power)
        else:
            parts, shifts = self.parts(operands[0], MOST_SHIFTED)
            values = np.stack(np.split(parts, 2, axis=1), axis=2)
            values[:, self.points // 4 :, 1] *= -1
            values = values.reshape(len(values), -1)
        by = (right + max(self.power, 1) * shifts)[:, None]
        scaled = (values * multiplier + (1 << 31)) >> 32
        down = np.clip(by, 0, 31)
        levels = np.where(by < 0, scaled << np.clip(-by, 0, 16), (scaled + (1 << down >> 1)) >> down)
        y = np.clip(levels + self.y.zero_point, *self.y.dtype.bounds)
        return y.astype(self.y.dtype.numpy).reshape(self.y.shape)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        cases = (
            (64, 64, 32, 1, 3, 1, DType.INT16, 2e-3),
            (128, 101, 40, 2, 3, 2, DType.INT8, 3.0),
            (512, 480, 320, 1, 2, 0, DType.INT16, 5e-3),
            (64, 33, 50, 3, 1, 0, DType.INT8, 0.1),
            (256, 1, 1, 1, 1, 1, DType.INT8, 1e-2),
            (MOST_POINTS, 999, 7, 1, 1, 1, DType.INT16, 0.02),
            (64, 16, 7, 1, 4, 2, DType.INT16, 1e-5),
            (128, 128, 7, 1, 2, 0, DType.INT16, 1e-12),
            (64, 60, 64, 2, 1, 2, DType.INT8, 1e-15),
        )
        for number, (points, count, hop, batch, frames, power, dtype, scale) in enumerate(cases):
            window = 0.5 - 0.5 * np.cos(2 * np.pi * (np.arange(count) + 0.5) / count)
            shape = (batch, (frames - 1) * hop + count + number % 2, 1)
            zero_point = (-128, 0, 127)[number % 3] if dtype is DType.INT8 else 0
            yield make_op(
                cls,
                Value("y", TensorType((), dtype, PerTensor(scale, zero_point))),
                x=Value("x", TensorType(shape, DType.INT16, PerTensor(2.0**-15))),
                window=constant_value("window", window.astype(np.float32)),
                hop=hop,
                points=points,
                power=power,
            )
