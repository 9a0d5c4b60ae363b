# SPDX-License-Identifier: Apache-2.0
"""Tables of 16-bit functions in our own arithmetic, and lines between their entries: one entry per 256 levels, or, for
functions that are steep near 0, 64 per octave of either sign."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.numerics import Int64Array
from pillion.ir.types import DType, Value

Reals = NDArray[np.float64]
ENTRIES = 257
"""Entries of a table: one per 256 levels, and one for the end."""
OCTAVE = 64
"""Entries per octave, and for the smallest magnitudes."""
SIDE = OCTAVE * 10 + 1
"""Entries per sign of a table by octaves: of 0 to 63, of the octaves of 64 to 16384, and of 32768."""


def entry_levels(by_octaves: bool) -> Int64Array:
    """Returns the level of each entry of a table, less the zero point in a table by octaves: first 0 to -32768, then 0 to
    32768."""
    least, most = DType.INT16.bounds
    if not by_octaves:
        return np.arange(least, most + 2, 256)
    octaves = [np.arange(OCTAVE, 2 * OCTAVE) << octave for octave in range(9)]
    side = np.concatenate([np.arange(OCTAVE), *octaves, [-least]])
    return np.concatenate([-side, side])


def tabulate(
    function: Callable[[Reals], Reals], x: Value, y: Value, by_octaves: bool = False
) -> NDArray[np.int16]:
    """Returns the table of a real function at the scales of an operand and a result, in double precision and rounded
    half away from zero."""
    least, most = DType.INT16.bounds
    reals: Reals = (entry_levels(by_octaves) - x.zero_point) * np.float64(x.scale)
    with np.errstate(all="ignore"):
        levels = numerics.round_half_away(function(reals) / y.scale + y.zero_point)
    entries = np.clip(np.nan_to_num(levels, nan=least, posinf=most, neginf=least), least, most)
    return entries.astype(np.int16)


def interpolate(table: NDArray[np.int16], levels: Int64Array) -> NDArray[np.int16]:
    """Returns the results of 16-bit levels, rounded half up between two entries."""
    ends = table.astype(np.int64)
    if len(ends) == ENTRIES:
        at, bits = levels - DType.INT16.bounds[0], np.int64(8)
        first = at >> bits
    else:
        at = np.abs(levels)
        bits = np.maximum(np.frexp(at.astype(np.float64))[1] - OCTAVE.bit_length(), 0)
        first = np.where(levels < 0, 0, SIDE) + OCTAVE * bits + (at >> bits)
    slope = ends[first + 1] - ends[first]
    return (ends[first] + (slope * (at & (1 << bits) - 1) + (1 << bits >> 1) >> bits)).astype(np.int16)


def as_int8_table(table: NDArray[np.int16], x: Value, y: Value, of: tuple[Value, Value]) -> NDArray[np.int8]:
    """Returns the 8-bit table that corresponds to a 16-bit table, for 8-bit operand and result."""
    wide_x, wide_y = of
    reals = (np.arange(-128, 128) - x.zero_point) * np.float64(x.scale)
    at = reals / wide_x.scale + wide_x.zero_point
    interpolated = np.interp(at, np.arange(DType.INT16.bounds[0], DType.INT16.bounds[1] + 2, 256), table)
    levels = numerics.round_half_away(
        (interpolated - wide_y.zero_point) * wide_y.scale / y.scale + y.zero_point
    )
    return numerics.clamp_to_int8(levels, *DType.INT8.bounds).astype(np.int8)
