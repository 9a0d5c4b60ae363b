# SPDX-License-Identifier: Apache-2.0
"""Logarithms of mel spectra of 16-bit samples, by a real FFT in 32 bits.

One op computes window, FFT, power, filters and logarithm: between them a frame has an exponent of its own, which no
tensor could hold. The exponents are added behind the logarithm."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic, Int64Array
from pillion.ir.op import Op, op, operand, require_rank
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value, constant_value
from pillion.ops.example_values import make_op
from pillion.ops.fixed_fft import FRACTION, log2
from pillion.ops.frames import MOST_SHIFTED, Frames

Reals = NDArray[np.float64]

FILTER_BITS = 16
NOTHING = -256
"""The exponent of 0: it stays below 0 in every frame."""
LARGEST_SHIFT = 31
"""The largest shift of the mantissas of `offset` and `floor`: with sums below 2^57 they stay below 2^64."""
LARGEST_CONSTANT = 2.0**30
"""Steps of the result for a logarithm of 0, at most."""
LARGEST_SLOPE = 2.0**15
"""Steps of the result for a doubling, at most."""


@op("log_mel")
class LogMel(Frames):
    """Computes `slope` * log2(max(mel + `offset`, `floor`)) + `intercept` of frames of 16-bit samples, where mel is
    the spectrum's magnitude to the `power` 1 or 2, times `filters`.

    A frame is as long as `window`; the next one begins `hop` samples later. Zeros behind it fill the 64 to 2,048
    points of the FFT, twice the filters' rows less 2. Samples are shifted up as far as the frame allows, the FFT has
    32 bits and divides in each stage, the spectrum is shifted up again, powers have 32 bits, sums 64."""

    real_constants: ClassVar[tuple[str, ...]] = ("window", "filters")
    is_identity = False

    filters: Value = operand()
    power: int = 2
    slope: float
    intercept: float = 0.0
    offset: float = 0.0
    floor: float = 0.0

    @property
    def points(self) -> int:
        return 2 * (self.filters.shape[0] - 1)

    @property
    def filter_exponent(self) -> int:
        """The exponent of two that makes 16-bit integers of the filters."""
        return FILTER_BITS - math.frexp(float(self.filters.constant.max()) * (1 + 2.0**-FILTER_BITS))[1]

    @property
    def filter_levels(self) -> Int64Array:
        """The filters as 16-bit integers."""
        reals = self.filters.constant.astype(np.float64)
        return numerics.round_half_away(reals * 2.0**self.filter_exponent).astype(np.int64)

    @property
    def unit(self) -> float:
        """The logarithm to base 2 of the value of one unit of a sum, in a frame that nothing shifts."""
        return math.log2(self.unit_of_magnitudes) - self.filter_exponent

    def in_units(self, real: float) -> tuple[int, int]:
        """Returns a positive number in units of a sum: a mantissa of 31 bits and its exponent of two."""
        if not real:
            return 0, NOTHING
        exponent = math.floor(math.log2(real) - self.unit) - 30
        mantissa = math.floor(2.0 ** (math.log2(real) - self.unit - exponent))
        return min(mantissa, numerics.INT32_MAX), exponent

    @property
    def most_shifted(self) -> int:
        """The largest shift of samples and spectrum together: further bits would be far below the offset or floor."""
        exponents = [self.in_units(real)[1] for real in (self.offset, self.floor) if real]
        shift = min(
            [(LARGEST_SHIFT - exponent) // self.power for exponent in exponents], default=MOST_SHIFTED
        )
        if shift < 0:
            raise ValueError(
                f"offset {self.offset:g} and floor {self.floor:g}: samples in steps of {self.x.scale:.3g}"
            )
        return shift

    @property
    def output_line(self) -> tuple[int, int]:
        """Factor and constant that make results of logarithms, in units of 2^-32."""
        steps = self.slope / self.y.scale
        constant = (self.slope * self.unit + self.intercept) / self.y.scale + self.y.zero_point
        if not 0 < abs(steps) < LARGEST_SLOPE or abs(constant) >= LARGEST_CONSTANT:
            raise ValueError(
                f"slope {self.slope:g}, intercept {self.intercept:g}: results in steps of {self.y.scale:.3g}"
            )
        return round(steps * 2.0 ** (32 - FRACTION)), math.floor((constant + 0.5) * 2.0**32)

    def infer(self) -> TensorType:
        return TensorType((self.x.shape[0], self.frames, self.filters.shape[1]), self.y.dtype)

    def check(self) -> None:
        require_rank(self, self.filters, 2)
        self.check_frames(self.filters)
        if float(self.filters.constant.min()) < 0 or min(self.offset, self.floor) < 0:
            raise self.refuse("no filter, offset or floor is negative", repr(self.filters))
        if self.power not in (1, 2):
            raise self.refuse(
                "filters add magnitudes or their squares", f"power {self.power}", "choose 1 or 2"
            )
        if self.x.dtype is not DType.FLOAT32:
            self.check_integers("offset and floor are near the powers of a frame")

    def check_scales(self, arithmetic: Arithmetic) -> None:
        _ = self.most_shifted, self.output_line

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        magnitudes, shifts = self.magnitudes(operands[0], self.most_shifted, self.power)
        sums = magnitudes.astype(np.uint64) @ self.filter_levels.astype(np.uint64)
        logarithms = log2(self._with_limits(sums, shifts)) - (self.power * shifts[:, None] << FRACTION)
        factor, constant = self.output_line
        y = np.clip((logarithms * factor + constant) >> 32, *self.y.dtype.bounds)
        return y.astype(self.y.dtype.numpy).reshape(self.y.shape)

    def _with_limits(self, sums: NDArray[np.uint64], shifts: Int64Array) -> NDArray[np.uint64]:
        """Adds the offset to sums and raises them to the floor, and to 1."""

        def shifted(real: float) -> NDArray[np.uint64]:
            mantissa, exponent = self.in_units(real)
            by = self.power * shifts[:, None] + exponent
            left, right = np.maximum(by, 0).astype(np.uint64), np.clip(-by, 0, 63).astype(np.uint64)
            return np.where(by > 0, np.uint64(mantissa) << left, np.uint64(mantissa) >> right)

        return np.maximum(np.maximum(sums + shifted(self.offset), shifted(self.floor)), np.uint64(1))

    @classmethod
    def examples(cls) -> Iterator[Op]:
        cases = (
            (64, 64, 32, 7, 1, 3, DType.INT8),
            (128, 101, 40, 5, 2, 3, DType.INT16),
            (512, 480, 320, 40, 1, 2, DType.INT8),
            (64, 33, 50, 13, 3, 1, DType.INT16),
            (256, 1, 1, 129, 1, 1, DType.INT8),
            (64, 16, 7, 3, 1, 4, DType.INT8),
            (128, 100, 30, 6, 1, 2, DType.INT16),
        )
        for number, (points, count, hop, bands, batch, frames, dtype) in enumerate(cases):
            window = 0.5 - 0.5 * np.cos(2 * np.pi * (np.arange(count) + 0.5) / count)
            centres = np.linspace(0, points // 2, bands + 2)
            distances = np.abs(np.arange(points // 2 + 1)[:, None] - centres[1:-1])
            filters = np.maximum(1 - distances * (bands + 1) / points * 2, 0)
            shape = (batch, (frames - 1) * hop + count + number % 2, 1)
            x = Value("x", TensorType(shape, DType.INT16, PerTensor(2.0**-15)))
            quant = PerTensor(0.11, (-128, 0, 127)[number % 3]) if dtype is DType.INT8 else PerTensor(0.0008)
            yield make_op(
                cls,
                Value("y", TensorType((), dtype, quant)),
                x=x,
                window=constant_value("window", window.astype(np.float32)),
                filters=constant_value("filters", filters.astype(np.float32)),
                hop=hop,
                power=1 if number == 6 else 2,
                **(
                    {"slope": math.log(2), "offset": 1e-6},
                    {"slope": 10 * math.log10(2), "floor": 1e-10, "intercept": -20.0},
                    {"slope": -1.5, "offset": 1.0, "floor": 1.5},
                    {"slope": 1.0},
                )[number % 4],
            )
