# SPDX-License-Identifier: Apache-2.0
"""LiteRT's fully connected layers without floating point: numbers with which integers round as its doubles do, proven for every sum."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.accumulators import Int32Array, Int64Array, channels_of
from pillion.emitters.c.conditions import constants, int8
from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.linear import Linear

MOST_SHIFT = 22
SUM_LIMIT = 2**30
"""With these, products and offsets stay below 2^62."""
NEAR = np.arange(-3, 4)
"""How far from the estimate to look for the sum at which a result begins."""


STEPS = (0, 1, -1, 2, -2)
"""How far multipliers may be from the nearest ones, where no offset is right with those."""


@lru_cache(maxsize=64)
def numbers(op: Linear) -> Int32Array | None:
    """Gives [outputs, 4] as kernels/include/pillion/once.h wants them, or nothing where no such numbers are right."""
    mantissas, shifts = numerics.mantissas_and_shifts(numerics.encode_all(op.ratios), op.out_features)
    rights = -shifts.astype(np.int64)
    ends = np.stack(channels_of(op).bounds(), axis=1)
    if rights.min() < 1 or rights.max() > MOST_SHIFT or np.abs(ends).max() >= SUM_LIMIT:
        return None
    places = 31 + rights
    sums = _telling(op, ends)
    wanted = np.clip(_rounded(sums, op.ratios) + op.y.zero_point, -128, 127) if sums is not None else None
    if sums is None or wanted is None:
        return None
    multipliers, offsets = mantissas.astype(np.int64), (2 * op.y.zero_point + 1) << (places - 1)
    missing = np.ones(len(multipliers), bool)
    for step in STEPS:
        products = sums * (mantissas + step)[:, None] + (sums >> 63)
        least, most = _offsets(products, wanted, places)
        now = missing & (least <= most) & (mantissas + np.int64(step) < 2**31)
        multipliers[now] += step
        offsets[now] = np.clip(offsets, least, most)[now]
        missing &= ~now
    words = [multipliers, offsets & 0xFFFFFFFF, offsets >> 32, places - 32]
    return None if missing.any() else numerics.wrap32(np.stack(words, axis=1)).astype(np.int32)


def _telling(op: Linear, ends: Int64Array) -> Int64Array | None:
    """The sums of each channel that tell two functions apart which only rise: both ends, and those around each at which a result
    begins."""
    levels = np.arange(-127, 128) - op.y.zero_point - 0.5
    begins = np.floor(levels / op.ratios[:, None]).astype(np.int64)
    if not _found(begins, op):
        return None
    around = np.clip((begins[..., None] + NEAR).reshape(len(ends), -1), ends[:, :1], ends[:, 1:])
    return np.concatenate([around, ends], axis=1)


def _offsets(products: Int64Array, wanted: Int64Array, places: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The least and the largest offset of each channel with which all results are right; those at the bounds may be beyond them."""
    one = np.int64(1) << places[:, None]
    least = np.where(wanted > -128, wanted * one - products, -(2**62)).max(axis=1)
    most = np.where(wanted < 127, (wanted + 1) * one - 1 - products, 2**62).min(axis=1)
    return least, most


def _found(begins: Int64Array, op: Linear) -> bool:
    """Whether each result does begin where it was looked for: before it the double is too small, after it large enough."""
    levels = np.arange(-127, 128) - op.y.zero_point
    before, after = (_rounded(begins + step, op.ratios) for step in (NEAR[0], NEAR[-1]))
    return bool(((before < levels) & (after >= levels)).all())


def _rounded(sums: Int64Array, ratios: NDArray[np.float64]) -> Int64Array:
    return numerics.round_half_away(sums * ratios[:, None]).astype(np.int64)


def judge(op: Linear, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a fully connected layer is LiteRT's, and whether integers give its results."""
    is_litert = Verdict(
        "arithmetic", arithmetic is Arithmetic.TFLITE, Arithmetic.TFLITE.value, arithmetic.value
    )
    known = (
        is_litert,
        *int8(x=op.x, y=op.y, weights=op.weights),
        *constants(weights=op.weights, bias=op.bias),
    )
    if not all_ok(known):
        return known
    found = numbers(op) is not None
    return (
        *known,
        Verdict("scale", found, "integers that round as doubles do", "found" if found else "none found"),
    )


def packed(op: Linear) -> Int32Array:
    """Gives the numbers of a layer for which there are some, one after another."""
    found = numbers(op)
    assert found is not None
    return found.reshape(-1)
