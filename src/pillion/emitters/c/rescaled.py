# SPDX-License-Identifier: Apache-2.0
"""Channels as the kernels of cores without Helium rescale them: twice a sum, times a multiplier, shifted to the right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pillion.emitters.c.accumulators import Channels, Int8Array, Int32Array, Int64Array, fold_input_offset
from pillion.ir.verdict import Verdict

MOST_SHIFT = 22
"""`round` and a sum below 2^30 together stay in 32 bits."""
SUM_LIMIT = 2**30
"""Twice a sum must fit 32 bits."""


@dataclass(frozen=True)
class Scaled:
    """Channels ready for the kernels: `round`, multiplier and right shift act on twice the sum."""

    weights: Int8Array
    sums: Int64Array
    """The sum of each channel before the products: the folded bias."""
    rounds: Int64Array
    multipliers: Int32Array
    rights: Int64Array
    least: Int64Array
    largest: Int64Array

    @property
    def reach(self) -> Int64Array:
        """The largest magnitude of each channel's sum."""
        return np.maximum(np.abs(self.least), np.abs(self.largest))


def rounding(out_zp: int, right: Any) -> Any:
    """Gives what the kernels call `round`: a half, and the zero point, before a shift to the right by so many places."""
    return (2 * out_zp + 1) << (right - 1)


def scale_channels(channels: Channels) -> Scaled:
    """Folds the zero points in. A channel whose result never changes becomes a bias alone, four times the result: pruned channels
    have scales that no fast formula holds. Where a left shift wraps, equal ends say nothing of what lies between."""
    folded = fold_input_offset(channels)
    rights = -folded.shifts.astype(np.int64)
    rounds = rounding(channels.out_zp, np.clip(rights, 1, 32))
    return Scaled(folded.weights, folded.folded_bias, rounds, folded.multipliers, rights, *folded.bounds())


def plain_sums(channels: Channels) -> Scaled:
    """Gives channels whose sums alone are wanted: their scales are nothing."""
    count = len(channels.bias)
    ones = np.ones(count, np.int64)
    return Scaled(
        channels.weights, channels.folded_bias, ones, np.zeros(count, np.int32), ones, *channels.bounds()
    )


def right_shifts(scaled: Scaled) -> Verdict:
    """Judges whether all channels are rescaled by right shifts that the kernels have."""
    least, most = int(scaled.rights.min()), int(scaled.rights.max())
    return Verdict(
        "right_shift", least >= 1 and most <= MOST_SHIFT, f"1 to {MOST_SHIFT}", f"{least} to {most}"
    )


def sums_fit(scaled: Scaled) -> Verdict:
    """Judges whether no sum can leave the range in which the fast rounding is exact."""
    reach = int(scaled.reach.max())
    return Verdict("sum", reach < SUM_LIMIT, f"below {SUM_LIMIT}", f"up to {reach}")
