# SPDX-License-Identifier: Apache-2.0
"""Rescaling in the kernels for cores without Helium: twice the sum, times a multiplier, shifted right."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from pillion.emitters.c.accumulators import Int8Array, Int32Array, Int64Array, OutputChannels
from pillion.ir.verdict import Verdict

MOST_SHIFT = 22
"""The largest right shift: with it, `round` plus a sum below 2^30 fits 32 bits."""
SUM_LIMIT = 2**30
"""The bound of sums: twice a sum must fit 32 bits."""


@dataclass(frozen=True)
class ScaledChannels:
    """Channels with the constants of the kernels; `rounds`, `multipliers` and `rights` apply to twice the sum."""

    weights: Int8Array
    sums: Int64Array
    """The initial accumulator of each channel: the folded bias."""
    rounds: Int64Array
    multipliers: Int32Array
    rights: Int64Array
    least: Int64Array
    largest: Int64Array

    @property
    def reach(self) -> Int64Array:
        """The largest magnitude of each channel's sum."""
        return np.maximum(np.abs(self.least), np.abs(self.largest))


def rounding_constant(out_zp: int, right: Any) -> Any:
    """Returns the constant that a kernel adds before a right shift: one half plus the zero point."""
    return (2 * out_zp + 1) << (right - 1)


def scale_channels(channels: OutputChannels) -> ScaledChannels:
    """Returns the channels with their zero points folded into biases and rounding constants."""
    folded = channels.with_folded_zero_point
    rights = -folded.shifts.astype(np.int64)
    rounds = rounding_constant(channels.out_zp, np.clip(rights, 1, 32))
    more = np.zeros_like(rights)
    for c in np.flatnonzero(rights == 0):
        found = (0, 0) if channels.is_rectified else offset_of_sums(int(folded.multipliers[c]))
        if found is None:
            rights[c] = -1
        else:
            more[c], rounds[c] = found[0], channels.out_zp - found[1]
    least, largest = (bound + more for bound in folded.bounds())
    sums = folded.folded_bias + more
    return ScaledChannels(folded.weights, sums, rounds, folded.multipliers, rights, least, largest)


WITHIN = 520
"""From this magnitude on, a sum times a multiplier from 1/2 on is beyond int8, whatever the zero point is."""
OFFSETS = np.arange(WITHIN, 2**13), np.arange(2**13, 2**18)
"""The numbers that are tried; nine of ten channels have one among the first."""


@lru_cache(1024)
def offset_of_sums(multiplier: int) -> tuple[int, int] | None:
    """Returns an offset for sums, and the increase of each result by it, for a multiplier from 1/2 on without a right
    shift. The offset makes all sums within int8 positive, and no sign fix is needed. None if no offset does, because
    some results lie next to halves."""
    phases = (np.arange(-WITHIN, WITHIN + 1) * multiplier + 2**30) % 2**31
    for offsets in OFFSETS:
        products = offsets * multiplier
        units = products + 2**30 >> 31
        beyond = products - (units << 31)
        fits = np.flatnonzero((phases.min() + beyond >= 0) & (phases.max() + beyond < 2**31))
        if fits.size:
            return int(offsets[fits[0]]), int(units[fits[0]])
    return None


def unscaled_channels(channels: OutputChannels) -> ScaledChannels:
    """Returns channels that are summed but not rescaled by the kernel."""
    count = len(channels.bias)
    ones = np.ones(count, np.int64)
    return ScaledChannels(
        channels.weights, channels.folded_bias, ones, np.zeros(count, np.int32), ones, *channels.bounds()
    )


def check_right_shifts(scaled: ScaledChannels) -> Verdict:
    """Checks whether every channel is rescaled by a right shift within the kernels' range."""
    least, most = int(scaled.rights.min()), int(scaled.rights.max())
    return Verdict(
        "right_shift", least >= 0 and most <= MOST_SHIFT, f"0 to {MOST_SHIFT}", f"{least} to {most}"
    )


def rounding_is_exact(scaled: ScaledChannels) -> Verdict:
    """Checks whether every sum stays in the range in which the fast rounding is exact."""
    reach = int(scaled.reach.max())
    return Verdict("sum", reach < SUM_LIMIT, f"below {SUM_LIMIT}", f"up to {reach}")
