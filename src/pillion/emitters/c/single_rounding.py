# SPDX-License-Identifier: Apache-2.0
"""LiteRT's fully connected layers without floating point: integer constants that round as its doubles do, proven
for every sum."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.accumulators import Int32Array, Int64Array, channels_of
from pillion.emitters.c.kernel_conditions import LAYER, LAYER_4, all_of, in_arithmetic, short_circuit
from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict
from pillion.ops.linear import Linear

MOST_SHIFT = 22
SUM_LIMIT = 2**30
"""With these limits, products plus offsets stay below 2^62."""
NEAR = np.arange(-3, 4)
"""Distances from the estimate at which the smallest sum of a result is searched."""


STEPS = (0, 1, -1, 2, -2)
"""Changes to the multipliers that are tried until a correct offset exists."""


@lru_cache(maxsize=64)
def single_rounding_constants(op: Linear) -> Int32Array | None:
    """Returns [outputs, 4] in the layout of kernels/include/pillion/once.h; None if no constants are exact."""
    mantissas, shifts = numerics.mantissas_and_shifts(numerics.encode_multipliers(op.ratios), op.out_features)
    rights = -shifts.astype(np.int64)
    bounds = np.stack(channels_of(op).bounds(), axis=1)
    if rights.min() < 1 or rights.max() > MOST_SHIFT or np.abs(bounds).max() >= SUM_LIMIT:
        return None
    fraction_bits = 31 + rights
    sums = _distinguishing_sums(op, bounds)
    expected = (
        np.clip(_scale_and_round(sums, op.ratios) + op.y.zero_point, -128, 127) if sums is not None else None
    )
    if sums is None or expected is None:
        return None
    multipliers, offsets = mantissas.astype(np.int64), (2 * op.y.zero_point + 1) << (fraction_bits - 1)
    missing = np.ones(len(multipliers), bool)
    for step in STEPS:
        products = sums * (mantissas + step)[:, None] + (sums >> 63)
        least, most = _valid_offset_range(products, expected, fraction_bits)
        now = missing & (least <= most) & (mantissas + np.int64(step) < 2**31)
        multipliers[now] += step
        offsets[now] = np.clip(offsets, least, most)[now]
        missing &= ~now
    words = [multipliers, offsets & 0xFFFFFFFF, offsets >> 32, fraction_bits - 32]
    return None if missing.any() else numerics.wrap_to_32_bits(np.stack(words, axis=1)).astype(np.int32)


def _distinguishing_sums(op: Linear, bounds: Int64Array) -> Int64Array | None:
    """Returns the sums of each channel that distinguish two monotonic functions: the bounds, and the sums around
    each at which the result changes; None if these are not found."""
    levels = np.arange(-127, 128) - op.y.zero_point - 0.5
    begins = np.floor(levels / op.ratios[:, None]).astype(np.int64)
    if not _has_near_thresholds(begins, op):
        return None
    around = np.clip((begins[..., None] + NEAR).reshape(len(bounds), -1), bounds[:, :1], bounds[:, 1:])
    return np.concatenate([around, bounds], axis=1)


def _valid_offset_range(
    products: Int64Array, expected: Int64Array, fraction_bits: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Returns the smallest and the largest offset of each channel with which all results are correct after
    saturation."""
    unit = np.int64(1) << fraction_bits[:, None]
    least = np.where(expected > -128, expected * unit - products, -(2**62)).max(axis=1)
    most = np.where(expected < 127, (expected + 1) * unit - 1 - products, 2**62).min(axis=1)
    return least, most


def _has_near_thresholds(begins: Int64Array, op: Linear) -> bool:
    """Whether each result changes within `NEAR` of the estimate: the double rounds below it before, and to it
    after."""
    levels = np.arange(-127, 128) - op.y.zero_point
    before, after = (_scale_and_round(begins + step, op.ratios) for step in (NEAR[0], NEAR[-1]))
    return bool(((before < levels) & (after >= levels)).all())


def _scale_and_round(sums: Int64Array, ratios: NDArray[np.float64]) -> Int64Array:
    return numerics.round_half_away(sums * ratios[:, None]).astype(np.int64)


def has_integers(op: Linear) -> Verdict:
    """Checks whether integer constants reproduce LiteRT's arithmetic."""
    exists = single_rounding_constants(op) is not None
    return Verdict("scale", exists, "integers that round as doubles do", "found" if exists else "none found")


EXACT, EXACT_4 = (
    short_circuit(all_of(in_arithmetic(Arithmetic.TFLITE), layer), has_integers) for layer in (LAYER, LAYER_4)
)
"""A fully connected layer, of weights of 8 or 4 bits, has LiteRT's arithmetic and integer constants that reproduce it."""


def packed_numbers(op: Linear) -> Int32Array:
    """Returns the constants of a layer that `judge` accepts, flattened."""
    constants = single_rounding_constants(op)
    assert constants is not None
    return constants.reshape(-1)
