# SPDX-License-Identifier: Apache-2.0
"""Emulates single rounding with kernels that round twice: finds numbers with which both give the same result for every accumulator.

A kernel multiplies an accumulator, rounds half up, shifts, and rounds half away from zero. A term added to the accumulators before
lifts all results far above zero, and the lift is subtracted after: up there both roundings are floors, and the added term compensates
their offsets. The search finds a multiplier and an addend per channel with which each result starts at the right accumulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pillion.ir import numerics

Int64Array = NDArray[np.int64]
Rounding = Callable[[Int64Array], Int64Array]
"""Returns results without zero point for accumulators, a row per channel. It is monotonic."""

NEAR = np.arange(-3, 4)
"""Offsets around the estimated threshold that are searched."""
MOST_SHIFT = 22
"""The largest shift: compared numbers stay below 2^62."""
STEPS = np.unique(np.concatenate([[0], *((2**i, 3 * 2**i // 2) for i in range(20))])).astype(np.int64)
"""Offsets around the nearest multiplier that are tried."""
MOST_MULTIPLIERS, MOST_LIFTS, AT_ONCE = 512, 2**15, 512
LEAST_LIFT = 512
"""The smallest lift: all lifted results are non-negative."""


@dataclass(frozen=True)
class SingleRounding:
    """The solution: multipliers, the term added to each channel's bias, and the lift that is subtracted from
    all results."""

    mantissas: Int64Array
    shifts: Int64Array
    added: Int64Array
    lift: int


@dataclass(frozen=True)
class _ChannelMultipliers:
    """The candidate multipliers of a channel, and for each the interval of its addend: from `least` to below
    `end`."""

    mantissas: Int64Array
    least: Int64Array
    end: Int64Array
    one: int
    """The value of a result of 1 before the shift."""
    rounded: int
    """The sum of both rounding terms."""

    def added(self, lifts: Int64Array) -> tuple[Int64Array, NDArray[np.bool_]]:
        """Returns the least addend for each lift and multiplier, and whether it is valid."""
        lifted = (lifts * self.one - self.rounded)[:, None]
        lowest = -((-(self.least + lifted)) // self.mantissas)
        return lowest, lowest <= (self.end - 1 + lifted) // self.mantissas


def rounded_as_doubles(sums: Int64Array, ratios: NDArray[np.float64]) -> Int64Array:
    """Returns accumulators scaled as in LiteRT: in double precision, rounded once."""
    return numerics.round_half_away(sums * ratios).astype(np.int64)


def find_single_rounding(
    ratios: NDArray[np.float64], ends: Int64Array, zero_point: int, rounding: Rounding
) -> SingleRounding | None:
    """Returns a solution for channels with these ratios and accumulators from `ends[:, 0]` to `ends[:, 1]`,
    or None."""
    mantissas, shifts = numerics.mantissas_and_shifts(numerics.encode_multipliers(ratios), len(ratios))
    levels = np.arange(-127, 128) - zero_point
    begins = _result_thresholds(ratios, levels, rounding)
    if begins is None or -shifts.min() > MOST_SHIFT or not mantissas.all():
        return None
    channels = [
        _candidate_multipliers(int(m), int(s), at, levels, end)
        for m, s, at, end in zip(mantissas, shifts, begins, ends, strict=True)
    ]
    room = 2**30 / 2.0 ** np.maximum(shifts, 0) - np.abs(ends).max(axis=1)
    most = int(min(2**24, (room * ratios).min()))
    lifts = np.unique(np.linspace(LEAST_LIFT, max(most, LEAST_LIFT), MOST_LIFTS).astype(np.int64))
    lift = _find_least_lift(channels, lifts) if most > 2 * LEAST_LIFT else None
    if lift is None:
        return None
    pairs = [_multiplier_and_addend(channel, lift) for channel in channels]
    return SingleRounding(
        np.array([m for m, _ in pairs]), shifts.astype(np.int64), np.array([a for _, a in pairs]), lift
    )


def _result_thresholds(
    ratios: NDArray[np.float64], levels: Int64Array, rounding: Rounding
) -> Int64Array | None:
    """Returns the least accumulator of each channel that reaches each result; None if it is not near its
    estimate."""
    estimates = np.floor((levels - 0.5) / ratios[:, None])
    if np.abs(estimates).max() >= 2**40:
        return None
    around = estimates.astype(np.int64)[..., None] + NEAR
    reached = rounding(around.reshape(len(ratios), -1)).reshape(around.shape) >= levels[:, None]
    if reached[..., 0].any() or not reached[..., -1].all():
        return None
    return np.asarray(around[..., 0] + reached.argmax(axis=-1), np.int64)


def _candidate_multipliers(
    mantissa: int, shift: int, begins: Int64Array, levels: Int64Array, bounds: Int64Array
) -> _ChannelMultipliers:
    """Returns all multipliers near the nearest one that leave an interval for the addend."""
    right = -shift
    unit, rounded = 1 << (31 + right), (1 << (30 + min(right, 0))) + ((1 << (30 + right)) if right > 0 else 0)
    offsets = np.unique(np.concatenate([-STEPS, STEPS]))

    def room(mantissas: Int64Array) -> tuple[Int64Array, Int64Array]:
        lower = levels * unit - np.minimum(begins, bounds[1] + 1) * mantissas[:, None]
        upper = levels * unit - (np.maximum(begins, bounds[0]) - 1) * mantissas[:, None]
        least = np.where(begins <= bounds[1], lower, -(2**61)).max(axis=1)
        return least, np.where(begins > bounds[0], upper, 2**61).min(axis=1)

    tried = _normalized_mantissas(mantissa + offsets)
    least, end = room(tried)
    fitting = tried[least < end]
    if not fitting.size:
        return _ChannelMultipliers(fitting, fitting, fitting, unit, rounded)
    count = min(MOST_MULTIPLIERS, int(fitting[-1] - fitting[0]) + 1)
    chosen = np.unique(np.linspace(fitting[0], fitting[-1], count).astype(np.int64))
    return _ChannelMultipliers(chosen, *room(chosen), unit, rounded)


def _normalized_mantissas(numbers: Int64Array) -> Int64Array:
    return numbers[(numbers >= 2**30) & (numbers < 2**31)]


def _find_least_lift(channels: list[_ChannelMultipliers], lifts: Int64Array) -> int | None:
    """Returns the least lift that is valid for all channels. Channels with the fewest multipliers are tested
    first."""
    channels = sorted(channels, key=lambda candidate: candidate.mantissas.size)
    if not channels[0].mantissas.size:
        return None
    for at in range(0, len(lifts), AT_ONCE):
        left = lifts[at : at + AT_ONCE]
        for channel in channels:
            left = left[channel.added(left)[1].any(axis=1)] if left.size else left
        if left.size:
            return int(left[0])
    return None


def _multiplier_and_addend(channel: _ChannelMultipliers, lift: int) -> tuple[int, int]:
    """Returns the multiplier and the addend of a channel."""
    added, right = channel.added(np.array([lift], np.int64))
    at = int(right[0].argmax())
    return int(channel.mantissas[at]), int(added[0, at])
