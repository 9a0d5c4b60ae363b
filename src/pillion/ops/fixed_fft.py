# SPDX-License-Identifier: Apache-2.0
"""A real FFT, a logarithm and a square root in fixed point. Each stage of the FFT divides by its radix, so that 32 bits suffice."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.numerics import Int64Array

RADIX = 4
TWIDDLE_STEPS = 2**14
"""Steps of a twiddle of a radix-4 stage: the upper half of the product is the quarter by which the stage divides."""
SPLIT_STEPS = 2**15 - 1
"""Steps of a twiddle that splits the spectrum of pairs, where the upper half of the product is one half."""
ENTRIES = 32
"""Intervals of the table of logarithms."""
FRACTION = 16
"""Fraction bits of a logarithm."""
ROOT_BITS = 6
"""Fraction bits of a square root."""


def headroom(rows: Int64Array, bits: int) -> Int64Array:
    """Returns by how many bits each row of integers can move left within `bits` bits."""
    differs = np.bitwise_or.reduce(rows ^ (rows << 1), axis=1) & ((1 << bits) - 2)
    return np.asarray(bits - 1 - np.floor(np.log2(np.maximum(differs, 1))).astype(np.int64))


@cache
def twiddles(points: int) -> NDArray[np.int16]:
    """Returns cosine and sine of k/points of a circle for k = p, 2p, 3p of each p below a quarter: [p, 3, 2]."""
    angles = 2 * np.pi * np.arange(points // RADIX)[:, None] * np.arange(1, RADIX) / points
    waves = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    return numerics.round_half_away(waves * TWIDDLE_STEPS).astype(np.int16)


@cache
def split_twiddles(points: int) -> NDArray[np.int16]:
    """Returns cosine and sine for k = 1 to points/4 - 1: [k, 2]."""
    angles = 2 * np.pi * np.arange(1, points // RADIX) / points
    waves = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    return numerics.round_half_away(waves * SPLIT_STEPS).astype(np.int16)


def stages(points: int) -> Iterator[int]:
    """Yields the lengths of the transforms that the radix-4 stages begin with."""
    while points >= RADIX:
        yield points
        points //= RADIX


def real_fft(samples: Int64Array, points: int) -> tuple[Int64Array, Int64Array]:
    """Returns real and imaginary parts [rows, points/2 + 1] of 2/points times the spectrum of rows of samples, behind
    which zeros are put; imaginary parts from points/4 on are negated. Samples are below 2^28."""
    half = points // 2
    padded = np.zeros((len(samples), points), np.int64)
    padded[:, : samples.shape[1]] = samples
    re, im = _complex_fft(padded[:, ::2], padded[:, 1::2])
    c, s = split_twiddles(points).astype(np.int64).T
    a_re, a_im = re[:, 1 : half // 2], im[:, 1 : half // 2]
    b_re, b_im = re[:, : half // 2 : -1], im[:, : half // 2 : -1]
    odd_re, odd_im = a_re - b_re, a_im + b_im
    turned_re = ((odd_im * c) >> 16) - ((odd_re * s) >> 16)
    turned_im = ((odd_re * c) >> 16) + ((odd_im * s) >> 16)
    even_re, even_im = (a_re + b_re) >> 1, (a_im - b_im) >> 1
    first, middle = slice(0, 1), slice(half // 2, half // 2 + 1)
    zero = np.zeros_like(re[:, first])
    ends = re[:, first] + im[:, first], re[:, first] - im[:, first]
    left, right = (even_re + turned_re, even_re - turned_re), (even_im - turned_im, even_im + turned_im)
    return (
        np.concatenate([ends[0], left[0], re[:, middle], left[1][:, ::-1], ends[1]], axis=1),
        np.concatenate([zero, right[0], im[:, middle], right[1][:, ::-1], zero], axis=1),
    )


def _complex_fft(re: Int64Array, im: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Returns the complex transform divided by its length; results come in order, as each stage interleaves them."""
    rows, length = re.shape
    stride = 1
    for points in stages(length):
        shape = (rows, RADIX, points // RADIX, stride)
        (a, b, c, d), (a_, b_, c_, d_) = (np.moveaxis(x.reshape(shape), 1, 0) for x in (re, im))
        cosines, sines = np.moveaxis(twiddles(points).astype(np.int64), -1, 0)[..., None]
        sums, others = (a + c, a_ + c_), (b + d, b_ + d_)
        differences, turned = (a - c, a_ - c_), (d_ - b_, b - d)
        parts = (
            (differences[0] - turned[0], differences[1] - turned[1]),
            (sums[0] - others[0], sums[1] - others[1]),
            (differences[0] + turned[0], differences[1] + turned[1]),
        )
        first = (sums[0] + others[0]) >> 2, (sums[1] + others[1]) >> 2
        outputs = [first]
        for k, (x, y) in enumerate(parts):
            cosine, sine = cosines[:, k], sines[:, k]
            outputs.append(
                (((x * cosine) >> 16) + ((y * sine) >> 16), ((y * cosine) >> 16) - ((x * sine) >> 16))
            )
        re, im = (np.stack([out[part] for out in outputs], axis=2).reshape(rows, length) for part in (0, 1))
        stride *= RADIX
    if stride < length:
        half = length // 2
        re, im = (
            np.concatenate([(x[:, :half] + x[:, half:]) >> 1, (x[:, :half] - x[:, half:]) >> 1], axis=1)
            for x in (re, im)
        )
    return re, im


@cache
def logarithms() -> NDArray[np.int32]:
    """Returns the table of log2(1 + i/32)."""
    return numerics.round_half_away(np.log2(1 + np.arange(ENTRIES + 1) / ENTRIES) * 2**FRACTION).astype(
        np.int32
    )


def log2(x: NDArray[np.uint64]) -> Int64Array:
    """Returns the logarithms to base 2 of positive integers, with 16 fraction bits."""
    whole = np.zeros(x.shape, np.int64)
    for bit in (32, 16, 8, 4, 2, 1):
        is_above = (x >> np.uint64(bit)) >> whole.astype(np.uint64) > 0
        whole += np.where(is_above, bit, 0)
    mantissa = ((x << (63 - whole).astype(np.uint64)) >> np.uint64(32)).astype(np.int64)
    table = logarithms().astype(np.int64)
    at, part = (mantissa >> 26) & (ENTRIES - 1), (mantissa >> 10) & 0xFFFF
    return np.asarray((whole << FRACTION) + table[at] + (((table[at + 1] - table[at]) * part) >> 16))


@cache
def roots() -> NDArray[np.int32]:
    """Returns the table of sqrt(i * 2^24) for i = 64 to 256, with the fraction bits of a root."""
    exact = np.sqrt(np.arange(64, 257) * 2.0**24) * 2**ROOT_BITS
    return numerics.round_half_away(exact).astype(np.int32)


def square_roots(x: Int64Array) -> Int64Array:
    """Returns the square roots of integers of 32 bits with 6 fraction bits; 0 counts as 1."""
    x = np.maximum(x, 1)
    pairs = (31 - np.floor(np.log2(x)).astype(np.int64)) // 2
    mantissa = x << (2 * pairs)
    table = roots().astype(np.int64)
    at, part = (mantissa >> 24) - 64, (mantissa >> 8) & 0xFFFF
    return np.asarray((table[at] + (((table[at + 1] - table[at]) * part) >> 16)) >> pairs)
