# SPDX-License-Identifier: Apache-2.0
"""Tables of LiteRT's 16-bit functions: one entry per 128 levels; each entry halves the error in the middle between it
and the next one. Computed in the real type of the bounds, as LiteRT does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pillion.ir.numerics import Int64Array
from pillion.ir.types import DType

ENTRIES = 513
"""Entries of a table: one for every 128th level, and one for the end."""
Reals = NDArray[Any]
"""Real numbers in float32 or in double precision."""


def tabulate(
    function: Callable[[Reals], Reals], low: Reals, high: Reals, per_unit: Reals
) -> NDArray[np.int16]:
    """Returns the table of a function from `low` to `high`; the result has `per_unit` steps per unit. Raises a
    ValueError if the function is infinite there."""
    real = low.dtype.type
    step = (high - low) / real(ENTRIES - 1)
    at = np.arange(ENTRIES).astype(real)
    starts = low + at * step
    with np.errstate(all="ignore"):
        ends = function(np.append(starts[:-1], high))
        here, following = ends[:-1] * per_unit, function(low + at[1:] * step) * per_unit
        middle = _round_half_away(function(starts[:-1] + step / real(2)) * per_unit)
        level = _round_half_away(here)
        error = _round_half_away((following + level) / real(2)) - middle
        entries = np.append(level - _round_half_away(error / real(2)), _round_half_away(ends[-1:] * per_unit))
    if not np.isfinite(entries).all():
        raise ValueError(f"the function is finite from {low:g} to {high:g}, the range of its operand")
    return np.clip(entries, *DType.INT16.bounds).astype(np.int16)


def _round_half_away(x: Reals) -> Reals:
    """Returns the nearest integers in the type of the numbers, which `numerics.round_half_away` would widen."""
    whole = np.trunc(x)
    return np.asarray(whole + np.where(np.abs(x - whole) >= 0.5, np.sign(x), 0).astype(x.dtype))


def look_up(table: NDArray[np.int16], levels: Int64Array) -> Int64Array:
    """Interpolates between the entries of a table. Differences of neighbours and results wrap around in 16 bits."""
    at, part = 256 + (levels >> 7), levels & 127
    slopes = np.diff(table).astype(np.int64)
    return (table[at] + (slopes[at] * part + 64 >> 7)).astype(np.int16).astype(np.int64)
