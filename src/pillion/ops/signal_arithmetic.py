# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of TensorFlow Lite Micro's sound features: the results of each stage, of its options, operands and table.
Numbers of 32 bits have no sign; results have 32 bits or wrap to them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from pillion.ir.numerics import Int64Array
from pillion.ops.fft16 import inverse_real_fft16, real_fft16, wrap16
from pillion.ops.fixed16 import saturate16

Options = Mapping[str, int]
SNR_BITS, GAIN_BITS = 12, 6
"""Fraction bits of PCAN's ratio, and of its result."""
LOG2_E = 45426
"""The natural logarithm of 2, in units of 2^-16."""
ALL_ONES = 2**32 - 1


def window(options: Options, x: Int64Array, table: Int64Array) -> Int64Array:
    """Returns products with the window, shifted right."""
    return saturate16((x * table) >> options["shift"])


def headroom(options: Options, x: Int64Array) -> Int64Array:
    """Returns the number of leading zeros of the largest magnitude. The magnitude of -32768 wraps to itself: only
    later samples count then, the first of them with its sign."""
    largest = 0
    for sample in x.ravel().tolist():
        largest = sample if sample > largest else -sample if -sample > largest else largest
        largest = -(2**15) if largest == 2**15 else largest
    return np.array(15 - largest.bit_length() if largest > 0 else 0)


def shift(options: Options, x: Int64Array, amount: Int64Array) -> Int64Array:
    """Returns samples that are moved left; shifts of 16 or more leave nothing."""
    return wrap16(np.where(amount < 16, x << np.minimum(amount, 15), 0))


def rfft(options: Options, x: Int64Array) -> Int64Array:
    """Returns spectra of rows, with zeros behind them."""
    rows = x.reshape(-1, x.shape[-1])
    return real_fft16(np.pad(rows, ((0, 0), (0, options["fft_length"] - rows.shape[1]))))


def irfft(options: Options, x: Int64Array) -> Int64Array:
    """Returns rows of samples of spectra."""
    return inverse_real_fft16(x.reshape(-1, x.shape[-1]))


def energy(options: Options, x: Int64Array) -> Int64Array:
    """Returns squares of both parts, added; bins outside the indices are 0."""
    places = np.arange(len(x) // 2)
    return np.where(
        (places >= options["start_index"]) & (places < options["end_index"]), x[::2] ** 2 + x[1::2] ** 2, 0
    )


def filter_bank(options: Options, x: Int64Array, filters: Int64Array) -> Int64Array:
    """Returns weighted sums as pairs of words, the lower one first."""
    sums = np.array([int(np.dot(x, band)) for band in filters.T], np.int64)
    return np.stack([sums & ALL_ONES, sums >> 32], axis=1)


def square_root(options: Options, x: Int64Array, amount: Int64Array) -> Int64Array:
    """Returns rounded roots; one that would need another bit than a 16-bit or 32-bit root has is rounded down."""
    roots = []
    for low, high in x.tolist():
        number = high << 32 | low
        root = isqrt(number)
        largest = ALL_ONES if high else 0xFFFF
        roots.append(root + (number - root * root > root and root != largest))
    return np.where(amount < 32, np.array(roots, np.int64) >> np.minimum(amount, 31), 0)


def noise(options: Options, x: Int64Array, before: Int64Array) -> Int64Array:
    """Returns weighted means of old and new levels; even and odd bands have their own weights."""
    is_odd = np.arange(x.size).reshape(x.shape) % 2 == 1
    share = np.where(is_odd, options["alternate_smoothing"], options["smoothing"])
    rest = np.where(is_odd, options["alternate_one_minus_smoothing"], options["one_minus_smoothing"])
    scaled = (x << options["smoothing_bits"]) & ALL_ONES
    level = ((scaled * share + before * rest) >> options["spectral_subtraction_bits"]) & ALL_ONES
    return np.minimum(level, scaled) if options["clamping"] else level


def subtraction(options: Options, x: Int64Array, noise: Int64Array) -> Int64Array:
    """Returns bands minus their noise levels, but at least a share of each band."""
    scaled = (x << options["smoothing_bits"]) & ALL_ONES
    floor = ((x * options["min_signal_remaining"]) >> options["spectral_subtraction_bits"]) & ALL_ONES
    return np.maximum((scaled - np.minimum(noise, scaled)) >> options["smoothing_bits"], floor)


def _bits(x: Int64Array) -> Int64Array:
    """Returns the number of bits that integers below 2^32 take."""
    return np.asarray(np.frexp(x.astype(np.float64))[1].astype(np.int64))


def pcan(options: Options, x: Int64Array, noise: Int64Array, table: Int64Array) -> Int64Array:
    """Multiplies by a function of the noise, a parabola between powers of two, and shrinks the result."""
    bits = np.maximum(_bits(noise), 2)
    at = 4 * bits - 6
    part = np.where(bits < 11, noise << np.maximum(11 - bits, 0), noise >> np.maximum(bits - 11, 0)) & 0x3FF
    curve = (((table[at + 2] * part) >> 5) + (table[at + 1] << 5)) * part
    gain = wrap16(((curve + (1 << 14)) >> 15) + table[at])
    gain = np.where(noise <= 2, table[np.minimum(noise, 2)], gain) & ALL_ONES
    product = x.astype(np.uint64) * gain.astype(np.uint64)
    ratio = (product >> np.uint64(options["snr_shift"])).astype(np.int64) & ALL_ONES
    small = (ratio * ratio & ALL_ONES) >> (2 + 2 * SNR_BITS - GAIN_BITS)
    return np.where(ratio < 2 << SNR_BITS, small, (ratio >> (SNR_BITS - GAIN_BITS)) - (1 << GAIN_BITS))


@cache
def log_corrections() -> NDArray[np.int16]:
    """Returns log2(1 + p) - p for p = 0, 1/128, ... 1, in units of 2^-16."""
    parts = np.arange(129) / 128
    return np.floor((np.log2(1 + parts) - parts) * 2.0**16 + 0.5).astype(np.int16)


def log(options: Options, x: Int64Array) -> Int64Array:
    """Returns natural logarithms; the logarithm of 0 counts as 0. Interpolation between table entries has almost no
    effect: the slope is divided by 2^16 instead of 2^9."""
    scaled = (x << options["input_correction_bits"]) & ALL_ONES
    whole = np.maximum(_bits(scaled) - 1, 0)
    rest = scaled - (1 << whole)
    part = np.where(whole < 16, rest << np.maximum(16 - whole, 0), rest >> np.maximum(whole - 16, 0))
    part = np.where(scaled > 1, part, 0)
    table, at = log_corrections().astype(np.int64), part >> 9
    slope = ((table[at + 1] - table[at]) * (part & 0x1FF)) >> 16
    natural = (((whole << 16) + part + table[at] + slope) * LOG2_E + (1 << 15)) >> 16
    levels = ((natural * options["output_scale"] + (1 << 15)) & ALL_ONES) >> 16
    return np.where(scaled > 1, np.minimum(levels, 2**15 - 1), 0)
