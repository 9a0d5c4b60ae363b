# SPDX-License-Identifier: Apache-2.0
"""A real FFT of 16-bit samples and back, in the arithmetic of TensorFlow Lite Micro: each stage divides by its radix, all
products are rounded to 16 bits, and sums wrap."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import pi

import numpy as np
from numpy.typing import NDArray

from pillion.ir.numerics import Int64Array

STEPS = 2**15 - 1
"""Steps of a twiddle."""
Complex = tuple[Int64Array, Int64Array]
"""Real and imaginary parts."""


def wrap16(x: Int64Array) -> Int64Array:
    """Returns the lowest 16 bits of integers, signed."""
    return np.asarray(((x + 2**15) & 0xFFFF) - 2**15)


def _waves(angles: NDArray[np.float64]) -> NDArray[np.int16]:
    """Returns cosine and sine of angles: [angles, 2]."""
    return np.floor(0.5 + STEPS * np.stack([np.cos(angles), np.sin(angles)], axis=-1)).astype(np.int16)


@cache
def stage_twiddles(points: int) -> NDArray[np.int16]:
    """Returns cosine and sine for each point of a complex transform."""
    return _waves(-2 * pi * np.arange(points) / points)


@cache
def split_twiddles16(points: int) -> NDArray[np.int16]:
    """Returns the factors that separate the spectrum of real samples from the spectrum of `points` pairs of
    samples."""
    return _waves(-pi * (np.arange(1, points // 2 + 1) / points + 0.5))


def radices(points: int) -> list[int]:
    """Returns the radices of a complex transform: fours, then perhaps a two, in which computation begins."""
    bits = points.bit_length() - 1
    return [4] * (bits // 2) + [2] * (bits % 2)


def _share(x: Int64Array, radix: int) -> Int64Array:
    return np.asarray((x * (STEPS // radix) + (1 << 14)) >> 15)


def _turn(x: Complex, waves: NDArray[np.int16], sign: int) -> Complex:
    """Multiplies by twiddles; with sign -1 by their conjugates."""
    cosine, sine = waves[..., 0].astype(np.int64), sign * waves[..., 1].astype(np.int64)
    products = x[0] * cosine - x[1] * sine, x[0] * sine + x[1] * cosine
    return wrap16((products[0] + (1 << 14)) >> 15), wrap16((products[1] + (1 << 14)) >> 15)


def _sum(a: Complex, b: Complex, sign: int = 1) -> Complex:
    return wrap16(a[0] + sign * b[0]), wrap16(a[1] + sign * b[1])


def _transform(x: Complex, sign: int) -> Complex:
    """Returns the complex transform of rows; with sign -1 the inverse one."""
    rows, points = x[0].shape
    shape = radices(points)
    order = np.arange(points).reshape(shape[::-1]).transpose().ravel()
    x, length = (x[0][:, order], x[1][:, order]), 1
    for radix in reversed(shape):
        blocks = [part.reshape(rows, -1, radix, length) for part in x]
        step, turns = points // (radix * length), np.arange(length)
        inputs: list[Complex] = []
        for k in range(radix):
            shared = _share(blocks[0][:, :, k], radix), _share(blocks[1][:, :, k], radix)
            inputs.append(_turn(shared, stage_twiddles(points)[k * step * turns], sign) if k else shared)
        outputs = _butterfly(inputs, sign)
        x = (
            np.stack([y[0] for y in outputs], axis=2).reshape(rows, points),
            np.stack([y[1] for y in outputs], axis=2).reshape(rows, points),
        )
        length *= radix
    return x


def _butterfly(x: Sequence[Complex], sign: int) -> list[Complex]:
    """Returns the transform of two or four numbers."""
    if len(x) == 2:
        return [_sum(x[0], x[1]), _sum(x[0], x[1], -1)]
    even, odd = (_sum(x[0], x[2]), _sum(x[0], x[2], -1)), (_sum(x[1], x[3]), _sum(x[1], x[3], -1))
    turned = sign * odd[1][1], -sign * odd[1][0]
    return [
        _sum(even[0], odd[0]),
        _sum(even[1], turned),
        _sum(even[0], odd[0], -1),
        _sum(even[1], turned, -1),
    ]


def _halves(x: Complex) -> tuple[Complex, Complex]:
    """Returns sum and difference of the halves of the numbers behind the first one and of their mirrored conjugates,
    up to the middle."""
    count = x[0].shape[1] // 2
    ahead = _share(x[0][:, 1 : count + 1], 2), _share(x[1][:, 1 : count + 1], 2)
    mirrored = x[0][:, : -count - 1 : -1], wrap16(-x[1][:, : -count - 1 : -1])
    back = _share(mirrored[0], 2), _share(mirrored[1], 2)
    return _sum(ahead, back), _sum(ahead, back, -1)


def real_fft16(samples: Int64Array) -> Int64Array:
    """Returns pairs of real and imaginary parts [rows, points + 2] of rows of samples [rows, points]."""
    re, im = _transform((samples[:, ::2], samples[:, 1::2]), 1)
    points = re.shape[1]
    total, less = _halves((re, im))
    turned = _turn(less, split_twiddles16(points), 1)
    ends = _share(re[:, 0], 2), _share(im[:, 0], 2)
    y = np.zeros((len(samples), points + 1, 2), np.int64)
    y[:, 0, 0], y[:, points, 0] = ends[0] + ends[1], ends[0] - ends[1]
    middle = slice(1, points // 2 + 1)
    y[:, middle, 0], y[:, middle, 1] = (total[0] + turned[0]) >> 1, (total[1] + turned[1]) >> 1
    mirrored = slice(points - 1, points - points // 2 - 1, -1)
    y[:, mirrored, 0], y[:, mirrored, 1] = (total[0] - turned[0]) >> 1, (turned[1] - total[1]) >> 1
    return wrap16(y.reshape(len(samples), -1))


def inverse_real_fft16(pairs: Int64Array) -> Int64Array:
    """Returns rows of samples [rows, points] of pairs of real and imaginary parts [rows, points + 2]."""
    re, im = pairs[:, ::2], pairs[:, 1::2]
    points = re.shape[1] - 1
    total, less = _halves((re[:, :points], im[:, :points]))
    turned = _turn(less, split_twiddles16(points), -1)
    first, last = re[:, 0], re[:, points]
    ends = _share(wrap16(first + last), 2), _share(wrap16(first - last), 2)
    ahead, back = _sum(total, turned), _sum(total, turned, -1)
    spectrum = np.empty((2, len(pairs), points), np.int64)
    middle, mirrored = slice(1, points // 2 + 1), slice(points - 1, points - points // 2 - 1, -1)
    spectrum[:, :, 0] = ends
    spectrum[:, :, middle] = ahead
    spectrum[:, :, mirrored] = back[0], wrap16(-back[1])
    samples = _transform((spectrum[0], spectrum[1]), -1)
    return np.stack(samples, axis=2).reshape(len(pairs), -1)
