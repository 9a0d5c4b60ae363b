# SPDX-License-Identifier: Apache-2.0
"""The softmax of 16-bit tensors as LiteRT computes it: two interpolated tables, and integers between them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.numerics import Int64Array, Multiplier
from pillion.ir.types import Array, DType, PerTensor

OUTPUT_16 = PerTensor(2.0**-15)
"""The quantization of the shares."""
ENTRIES = 513
"""Entries of a table: one for every 128th level, and one for the end."""
REACH = 10.0
"""Differences from the largest value beyond this one count as it."""
STEPS = 2**16 - 1
"""Levels of 16 bits, less one."""


def multiplier_16(scale: float) -> Multiplier:
    """Returns the multiplier from a difference of operands to levels of the first table."""
    multiplier = numerics.encode_multiplier(scale * STEPS / REACH)
    if multiplier.shift > 14:
        raise ValueError(f"operands of a softmax in steps of {scale:.3g}")
    return multiplier


@cache
def exponentials() -> NDArray[np.int16]:
    """Returns the table of exp on [-10, 0]."""
    return _table(math.exp, -REACH, 0.0)


@cache
def reciprocals() -> NDArray[np.int16]:
    """Returns the table of 1 / (1 + x) on [0, 1]."""
    return _table(lambda x: 1 / (1 + x), 0.0, 1.0)


def _table(function: Callable[[float], float], low: float, high: float) -> NDArray[np.int16]:
    """Returns a table of which each entry halves the error in the middle between it and the next one."""
    step = (high - low) / (ENTRIES - 1)

    def level(at: float) -> float:
        return function(low + at * step) * 2.0**15

    def rounded(x: float) -> float:
        return math.copysign(math.floor(abs(x) + 0.5), x)

    entries = [
        rounded(level(i))
        - rounded((rounded((level(i + 1) + rounded(level(i))) / 2) - rounded(level(i + 0.5))) / 2)
        for i in range(ENTRIES - 1)
    ]
    return np.clip([*entries, rounded(level(ENTRIES - 1))], *DType.INT16.bounds).astype(np.int16)


def look_up(table: NDArray[np.int16], levels: Int64Array) -> Int64Array:
    """Interpolates between the entries of a table."""
    wide = table.astype(np.int64)
    at, part = 256 + (levels >> 7), levels & 127
    return np.asarray(wide[at] + (((wide[at + 1] - wide[at]) * part + 64) >> 7))


def softmax_16(x: Array, multiplier: Multiplier) -> Array:
    """Returns the shares along the last axis."""
    levels = x.astype(np.int64)
    differences = levels - levels.max(axis=-1, keepdims=True)
    scaled = numerics.requantize(differences, multiplier.mantissa, multiplier.shift)
    exponential = look_up(exponentials(), np.clip(scaled + 32767, *DType.INT16.bounds))
    total = exponential.sum(axis=-1, keepdims=True)
    zeros = 31 - np.floor(np.log2(total)).astype(np.int64)
    mantissa = ((total << (zeros - 1)) + (1 << 13)) >> 14
    inverse = look_up(reciprocals(), np.clip(mantissa - 98304, *DType.INT16.bounds))
    shares = (exponential * inverse + (1 << (30 - zeros))) >> (31 - zeros)
    return np.clip(shares, 0, 32767).astype(np.int16)
