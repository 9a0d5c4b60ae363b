# SPDX-License-Identifier: Apache-2.0
"""The softmax of 16-bit tensors as LiteRT computes it: two interpolated tables, and integers between them."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.numerics import Multiplier
from pillion.ir.types import Array, DType, PerTensor
from pillion.ops.litert_table import look_up, tabulate

OUTPUT_16 = PerTensor(2.0**-15)
"""The quantization of the shares."""
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
    return tabulate(np.exp, np.array(-REACH), np.array(0.0), np.array(2.0**15))


@cache
def reciprocals() -> NDArray[np.int16]:
    """Returns the table of 1 / (1 + x) on [0, 1]."""
    return tabulate(lambda x: 1 / (1 + x), np.array(0.0), np.array(1.0), np.array(2.0**15))


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
