# SPDX-License-Identifier: Apache-2.0
"""Fixed-point arithmetic: the only module that turns scales into integer multipliers, and the only one that
rounds.

Three arithmetics have names. `cmsis-nn` is the default: scale ratios in double precision, a multiply that
rounds half up, a right shift that rounds half away from zero. `tflite` is that of LiteRT's reference kernels,
for NPU segments and imported `.tflite` files: the same requantization, but some operators form their ratio in
float32 and some have rules of their own. `tflite-integer` does without double precision: fully connected layers
are requantized like convolutions, and sums are rounded once. An op that differs documents it in its class.

Zero points are those of the quantization, real = scale * (q - zero_point); nothing here is negated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Int64Array = NDArray[np.int64]

INT16_MAX = 2**15 - 1
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT8_STEPS = 255
"""Steps between the smallest and the largest int8 value."""


class Arithmetic(Enum):
    """The library whose bits a graph reproduces; libraries round differently."""

    CMSIS_NN = "cmsis-nn"
    TFLITE = "tflite"
    TFLITE_INTEGER = "tflite-integer"

    @property
    def is_tflite(self) -> bool:
        """Whether ops follow LiteRT's rules. `tflite` and `tflite-integer` differ where LiteRT scales in double
        precision, in fully connected layers and sums; integer hardware uses a fixed-point multiplier there,
        too."""
        return self is not Arithmetic.CMSIS_NN


@dataclass(frozen=True)
class Multiplier:
    """The number mantissa * 2^shift / 2^31, with the mantissa in [2^30, 2^31) or 0. A positive shift is a left
    shift."""

    mantissa: int
    shift: int

    def __str__(self) -> str:
        return f"{self.mantissa}*2^{self.shift - 31}"

    @property
    def real(self) -> float:
        """The number itself."""
        return math.ldexp(self.mantissa, self.shift - 31)

    @property
    def is_normal(self) -> bool:
        """Whether `encode` can produce this multiplier, so that every kernel accepts it."""
        normal = 2**30 <= self.mantissa < 2**31 and -31 <= self.shift <= 30
        return normal or (self.mantissa, self.shift) == (0, 0)


Multipliers = tuple[Multiplier, ...]
"""All multipliers of an op, in the order that its class documents."""


def encode_multiplier(real: float) -> Multiplier:
    """Encodes a scale ratio in fixed point; rounds the mantissa half up."""
    if not (real >= 0 and math.isfinite(real)):
        raise ValueError(f"a scale ratio must be finite and not negative, got {real!r}")
    fraction, shift = math.frexp(real)
    mantissa = math.floor(fraction * 2**31 + 0.5)
    if mantissa == 2**31:
        mantissa, shift = 2**30, shift + 1
    if shift < -31 or mantissa == 0:
        return Multiplier(0, 0)
    if shift > 30:
        raise ValueError(f"a scale ratio of {real!r} needs a left shift of {shift}, more than 30")
    return Multiplier(mantissa, shift)


def encode_multipliers(reals: ArrayLike) -> Multipliers:
    """Encodes several scale ratios in fixed point."""
    return _encode_cached(np.atleast_1d(np.asarray(reals, np.float64)).tobytes())


@lru_cache(256)
def _encode_cached(reals: bytes) -> Multipliers:
    """Encodes ratios given as 64-bit floats; cached, as every tile of a layer has the same ones."""
    return tuple(map(encode_multiplier, np.frombuffer(reals, np.float64).tolist()))


def mantissas_and_shifts(
    multipliers: Multipliers, count: int | None = None
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Returns the vectors of mantissas and shifts that kernels read, with `count` elements; a single multiplier is
    repeated."""
    both = np.array([(m.mantissa, m.shift) for m in multipliers], np.int32).reshape(-1, 2)
    if count is not None:
        both = np.broadcast_to(both, (count, 2))
    return np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1])


def wrap_to_32_bits(x: ArrayLike) -> Int64Array:
    """Returns the value modulo 2^32 as a signed 32-bit number, held in 64 bits."""
    return np.asarray(x, np.int64).astype(np.uint64).astype(np.uint32).astype(np.int32).astype(np.int64)


def multiply_high(a: ArrayLike, b: ArrayLike) -> Int64Array:
    """Returns (a * b) / 2^31, rounded half up."""
    return (np.asarray(a, np.int64) * np.asarray(b, np.int64) + 2**30) >> 31


def high_word(a: ArrayLike, b: ArrayLike) -> Int64Array:
    """Returns (a * b) / 2^32, rounded half up, which Cortex-M computes in one instruction (SMMULR)."""
    return (np.asarray(a, np.int64) * np.asarray(b, np.int64) + 2**31) >> 32


def shift_right(x: ArrayLike, places: ArrayLike) -> Int64Array:
    """Returns x / 2^places, rounded half away from zero; `places` may be 0."""
    x, places = np.asarray(x, np.int64), np.asarray(places, np.int64)
    half = np.where(places > 0, np.int64(1) << np.maximum(places - 1, 0), 0)
    return np.where(places > 0, (x + half - (x < 0)) >> places, x)


def requantize(x: ArrayLike, mantissa: ArrayLike, shift: ArrayLike) -> Int64Array:
    """Returns x * 2^shift * mantissa / 2^31: a left shift that wraps in 32 bits, or a right shift after the
    multiply."""
    shift = np.asarray(shift, np.int64)
    shifted = wrap_to_32_bits(np.asarray(x, np.int64) << np.maximum(shift, 0))
    return shift_right(multiply_high(shifted, mantissa), np.maximum(-shift, 0))


def multiply_single_rounding(x: ArrayLike, multiplier: Multiplier) -> Int64Array:
    """Returns the product with a multiplier, rounded once, half up."""
    right = 31 - multiplier.shift
    return (np.asarray(x, np.int64) * multiplier.mantissa + (1 << (right - 1))) >> right


def to_15_bits(mantissa: ArrayLike, shift: ArrayLike) -> tuple[Int64Array, Int64Array]:
    """Returns multipliers for sums of 16-bit products: the mantissa rounded to 15 bits, and the right shift."""
    mantissa = np.asarray(mantissa, np.int64)
    rounded = np.where(mantissa < 0x7FFF0000, (mantissa + (1 << 15)) >> 16, 0x7FFF)
    return rounded, 15 - np.asarray(shift, np.int64)


def requantize_to_16_bits(x: ArrayLike, mantissa: ArrayLike, shift: ArrayLike) -> Int64Array:
    """Multiplies sums of 16-bit products by ratios below 2^15, rounded once, half up, as LiteRT does."""
    factors, places = to_15_bits(mantissa, shift)
    return np.asarray((np.asarray(x, np.int64) * factors + (1 << (places - 1))) >> places)


def scale_by(x: ArrayLike, real: float) -> Int64Array:
    """Requantizes by the encoded form of a ratio."""
    multiplier = encode_multiplier(real)
    return requantize(x, multiplier.mantissa, multiplier.shift)


MULTIPLIER_BITS = 30
"""Bits of the largest of several multipliers with common fraction bits."""
MOST_PLACES = 44
"""The maximum number of fraction bits of multipliers that share them."""


def shared_fraction_bits(ratios: ArrayLike) -> int:
    """Returns the fraction bits with which the largest of several scale ratios fills a 31-bit multiplier; less than 1
    if it is too large for one."""
    return min(MULTIPLIER_BITS - math.ceil(math.log2(np.max(ratios))), MOST_PLACES)


def to_fixed_point(ratios: ArrayLike, places: int) -> Int64Array:
    """Returns scale ratios as integers with these fraction bits."""
    return round_half_away(np.asarray(ratios, np.float64) * 2.0**places).astype(np.int64)


def round_half_away(x: ArrayLike) -> NDArray[np.float64]:
    """Returns the nearest integer of doubles, ties away from zero."""
    x = np.asarray(x, np.float64)
    nearest = np.rint(x)
    is_tie = np.abs(x - np.trunc(x)) == 0.5
    return np.where(is_tie, np.trunc(x) + np.sign(x), nearest)


def divide_half_away(x: ArrayLike, divisor: ArrayLike) -> Int64Array:
    """Returns x / divisor for a positive divisor, rounded half away from zero (integer half: divisor // 2)."""
    x, divisor = np.asarray(x, np.int64), np.asarray(divisor, np.int64)
    return np.sign(x) * ((np.abs(x) + divisor // 2) // divisor)


def scale_ratio(arithmetic: Arithmetic, numerators: tuple[float, ...], denominator: float) -> float:
    """Returns the product of scales over a scale, for operators for which LiteRT computes it in float32."""
    number = np.float32 if arithmetic.is_tflite else np.float64
    product = number(numerators[0])
    for factor in numerators[1:]:
        product = number(product * number(factor))
    return float(number(product / number(denominator)))


def quantize_array(x: ArrayLike, scale: ArrayLike, zero_point: int, low: int, high: int) -> Int64Array:
    """Rounds real numbers to integers as PyTorch's quantizer does: ties to even, saturating."""
    levels = np.rint(np.asarray(x, np.float64) / np.asarray(scale, np.float64)) + zero_point
    return np.clip(levels, low, high).astype(np.int64)


def quantize_bias(bias: ArrayLike, input_scale: float, weight_scales: ArrayLike) -> NDArray[np.int32]:
    """Quantizes a float bias at the accumulator's scale, saturated to 32 bits."""
    scale = input_scale * np.asarray(weight_scales, np.float64)
    return quantize_array(bias, scale, 0, INT32_MIN, INT32_MAX).astype(np.int32)


def row_sums(weights: NDArray[Any]) -> Int64Array:
    """Returns the exact sum of each row of a matrix of small integers, without a 64-bit copy of the matrix."""
    return np.asarray(weights.sum(axis=1, dtype=np.int64))


def row_magnitudes(weights: NDArray[Any]) -> Int64Array:
    """Returns the sum of the magnitudes in each row."""
    return 2 * row_sums(np.maximum(weights, 0)) - row_sums(weights)


def row_bounds(weights: NDArray[Any]) -> tuple[Int64Array, Int64Array]:
    """Returns the smallest and the largest dot product of each row with int8 numbers."""
    positive = row_sums(np.maximum(weights, 0))
    negative = row_sums(weights) - positive
    return 127 * negative - 128 * positive, 127 * positive - 128 * negative


def clamp_to_int8(x: ArrayLike, low: int, high: int) -> NDArray[np.int8]:
    """Clamps to [low, high] and narrows to int8."""
    return np.clip(np.asarray(x), low, high).astype(np.int8)
