# SPDX-License-Identifier: Apache-2.0
"""Constants of the DSP kernels (kernels/dsp) in the order of their loops, and the proofs that these loops are exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.accumulators import Int8Array, Int32Array, Int64Array, OutputChannels
from pillion.emitters.c.channel_scaling import (
    ScaledChannels,
    check_right_shifts,
    rounding_is_exact,
    scale_channels,
)
from pillion.emitters.c.kernel import Params
from pillion.ir import numerics
from pillion.ir.verdict import Verdict

B_LIMIT = 2**23
"""The bound of S_B, which occupies the upper 24 bits of an accumulator."""
SUMS_AT_ONCE = 2**20
"""The number of prefix sums in memory at once; they are eight times as wide as weights."""
Flags = NDArray[np.bool_]
INPUTS_OF_ROUND = 32
"""The inputs of one unrolled loop iteration: eight steps of four."""


def dot_verdicts(channels: OutputChannels) -> tuple[Verdict, ...]:
    """Checks the conditions under which dot products of three pixels are exact."""
    scaled = scale_channels(channels)
    return check_right_shifts(scaled), rounding_is_exact(scaled)


@dataclass(frozen=True)
class SpillPlan:
    """The number of loop iterations between spills of accumulator S_B, and the channels for which it cannot
    overflow."""

    rounds: int
    """Iterations between two spills; 0 if complete sums fit."""
    fits_b: NDArray[np.bool_]


def choose_spill_interval(scaled: ScaledChannels, limit: int = B_LIMIT) -> SpillPlan:
    """Chooses the longest interval between spills with which all channels fit, otherwise as many as possible."""
    fits_unspilled = scaled.reach < limit
    rounds = -(-scaled.weights.shape[1] // INPUTS_OF_ROUND)
    best = SpillPlan(0, fits_unspilled)
    while not best.fits_b.all() and rounds > 1:
        rounds = (rounds + 1) // 2
        fits = partial_sum_bounds(scaled, rounds) < limit
        best = SpillPlan(rounds, fits) if fits.sum() > best.fits_b.sum() else best
    return best


def partial_sum_bounds(scaled: ScaledChannels, rounds: int) -> Int64Array:
    """Returns a bound for the sum of any `rounds` consecutive iterations, with the bias and repeated inputs."""
    length = rounds * INPUTS_OF_ROUND + 4
    channels, inputs = scaled.weights.shape
    at_once = max(1, SUMS_AT_ONCE // (inputs + 1))
    blocks = (scaled.weights[first : first + at_once] for first in range(0, channels, at_once))
    largest = np.concatenate([_largest_windows(block, length) for block in blocks])
    twice = (scaled.weights == -128).sum(axis=1)
    return np.abs(scaled.sums) + 128 * (largest + twice)


def _largest_windows(weights: Int8Array, length: int) -> Int64Array:
    """Returns the largest sum of magnitudes of `length` adjacent weights in each row."""
    prefix_sums = np.pad(np.cumsum(np.abs(weights.astype(np.int64)), axis=1), ((0, 0), (1, 0)))
    last = np.minimum(np.arange(prefix_sums.shape[1]) + length, prefix_sums.shape[1] - 1)
    return np.asarray((prefix_sums[:, last] - prefix_sums).max(axis=1))


def pair_starts(fits_b: NDArray[np.bool_]) -> tuple[list[int], int]:
    """Returns the first channels of the pairs, and whether the last channel is alone. A channel that does not fit
    B is computed there incorrectly, and again as A of the next pair, which overwrites the result."""
    starts, channel = [], 0
    while channel < len(fits_b):
        starts.append(channel)
        channel += 2 if channel + 1 < len(fits_b) and fits_b[channel + 1] else 1
    return starts, int(starts[-1] == len(fits_b) - 1)


def mark_run_ends(shifts: Int64Array, begins: NDArray[np.bool_]) -> Int64Array:
    """Sets the sign bit of a group's shifts at the end of each run."""
    return shifts | np.where(np.append(begins[1:], True), np.int64(1) << 31, 0)


def repeated_inputs(a: Int8Array, b: Int8Array) -> NDArray[np.intp]:
    """Returns the inputs that must be repeated because 256 * -128 + A does not fit 16 bits for negative A."""
    return np.flatnonzero(((b == -128) & (a < 0)).any(axis=0))


def split_repeats(a: Int8Array, b: Int8Array, repeats: NDArray[np.intp]) -> tuple[Int8Array, Int8Array]:
    """Splits the weights of repeated inputs: -128 becomes -127 and, at the repetition, -1."""
    clash = (b[:, repeats] == -128) & (a[:, repeats] < 0)
    b = b.copy()
    b[:, repeats] += clash
    return np.hstack([a, np.zeros_like(clash, np.int8)]), np.hstack([b, -clash.astype(np.int8)])


def repeated_input_moves(repeats: NDArray[np.intp], inputs: int, words: int) -> NDArray[np.uint16]:
    """Returns {from, to} in halfwords for repeated inputs; inputs 0 and 2 of four are `words` words before 1 and
    3."""

    def halfword(k: NDArray[np.intp]) -> NDArray[np.intp]:
        return k // 4 * 4 * words + k % 2 * 2 * words + k % 4 // 2

    if not len(repeats):
        return np.zeros(1, np.uint16)  # C has no empty arrays
    targets = np.arange(inputs, inputs + len(repeats))
    return np.stack([halfword(repeats), halfword(targets)], axis=1).astype(np.uint16).reshape(-1)


def pack_pairs(a: Int8Array, b: Int8Array) -> Int32Array:
    """Packs weights [pairs, inputs] of A and B in words of two halves 256 * B + A: inputs 0 and 2, then 1 and 3 of
    every four."""
    return pack_halfwords(256 * b.astype(np.int16) + a)  # wraps like the 16-bit halves of the words


def pack_halfwords(both: NDArray[np.int16]) -> Int32Array:
    """Packs halfwords [rows, inputs] in words: inputs 0 and 2, then 1 and 3 of every four."""
    padded = np.pad(both, ((0, 0), (0, -both.shape[1] % 4)))
    fours = padded.reshape(len(padded), -1, 2, 2).swapaxes(2, 3)
    return np.ascontiguousarray(fours).view(np.int32).reshape(len(padded), -1)


def initial_sums(
    scaled: ScaledChannels, a: NDArray[np.intp], b: NDArray[np.intp], unit: int = 256
) -> Int64Array:
    """Returns [pairs, 2]: the initial values of T = S_A + unit * S_B and S_A."""
    return np.stack([scaled.sums[a] + unit * scaled.sums[b], scaled.sums[a]], axis=1)


def scales(scaled: ScaledChannels, a: NDArray[np.intp], b: NDArray[np.intp]) -> Int64Array:
    """Returns [pairs, 4]: rounding constant and multiplier of B and of A."""
    return np.stack(
        [scaled.rounds[b], scaled.multipliers[b], scaled.rounds[a], scaled.multipliers[a]], axis=1
    )


def join_word_stream(*parts: Int64Array | Int32Array) -> Int32Array:
    """Joins columns of numbers into one stream of 32-bit words in the kernel's reading order."""
    narrow = [p if p.dtype == np.int32 else numerics.wrap_to_32_bits(p).astype(np.int32) for p in parts]
    return np.asarray(np.hstack(narrow).reshape(-1), np.int32)


@dataclass(frozen=True)
class ChannelGroups:
    """The channels that are computed together: pairs of A and B, or groups of two pairs."""

    firsts: NDArray[np.intp]
    """The first channel of each group."""
    pairs: NDArray[np.intp]
    """The channels A of all first pairs, then of all second pairs."""
    rest: int
    """The number of channels behind the groups; whether the last pair has a channel of zeros as B."""
    repeats: NDArray[np.intp]
    """The inputs that pairs repeat."""
    inputs: int
    part_rounds: int

    @property
    def steps(self) -> int:
        """The steps of four inputs, repeated ones included."""
        return -(-(self.inputs + len(self.repeats)) // 4)

    def jumps(self, first: int = 0) -> int:
        """Returns the length of the jump list that drives an unrolled loop from the step `first` on: one for each
        iteration and one for the end; with spills, one for the beginning and one for each spill."""
        rounds = -(-4 * (self.steps - first) // INPUTS_OF_ROUND)
        return rounds + 1 + (1 + max(rounds - 1, 0) // self.part_rounds if self.part_rounds else 0)

    @property
    def row_bytes(self) -> int:
        """The scratch bytes of the fully connected kernel: the widened row and the jump list."""
        return 8 * self.steps + 4 * self.jumps()

    def begins_run(self, width: int, alone: int = 0) -> NDArray[np.bool_]:
        """Returns which groups of `width` channels do not follow the group before; the last `alone` never do."""
        begins = np.diff(self.firsts, prepend=-1) != width
        begins[len(self.firsts) - alone :] = True
        begins[:1] = True
        return begins

    def pack(self, scaled: ScaledChannels) -> Int32Array:
        """Packs the weights of all pairs, with repeated inputs at the end."""
        weights = with_zero_channel(scaled).weights
        return pack_pairs(*split_repeats(weights[self.pairs], weights[self.pairs + 1], self.repeats))

    def params(self, begins: NDArray[np.bool_], words: int) -> Params:
        """Returns the fields that convolutions and fully connected layers share."""
        runs = self.firsts[begins].astype(np.uint16)
        return {
            "runs": runs if len(runs) else np.zeros(1, np.uint16),  # C has no empty arrays
            "repeats": repeated_input_moves(self.repeats, self.inputs, words),
            **{"run_count": int(begins.sum()), "repeat_count": len(self.repeats)},
            **{"steps": self.steps, "part_rounds": self.part_rounds},
        }


def pair_channels(scaled: ScaledChannels) -> ChannelGroups:
    """Returns pairs of adjacent channels with weights of 4 bits; all channels fit a pair."""
    return _group_channel_pairs(scaled, pair_starts, 1)


def group_channels(scaled: ScaledChannels) -> ChannelGroups:
    """Groups the channels of a fully connected layer by two pairs."""
    return _group_channel_pairs(scaled, group_starts, 2)


def _group_channel_pairs(
    scaled: ScaledChannels, starts: Callable[[NDArray[np.bool_]], tuple[list[int], int]], pairs: int
) -> ChannelGroups:
    parts = choose_spill_interval(scaled)
    found, rest = starts(parts.fits_b)
    firsts = np.array(found, np.intp)
    a = np.concatenate([firsts + 2 * pair for pair in range(pairs)])
    weights = with_zero_channel(scaled).weights
    repeats = repeated_inputs(weights[a], weights[a + 1])
    return ChannelGroups(firsts, a, rest, repeats, weights.shape[1], parts.rounds)


def pair_nibbles(scaled: ScaledChannels) -> ChannelGroups:
    """Returns pairs of adjacent channels with weights of 4 bits, all of which fit a pair."""
    padded = with_zero_channel(scaled).weights
    fits = np.ones(len(padded) - 1, np.bool_)
    firsts, rest = pair_starts(fits)
    a = np.array(firsts, np.intp)
    return ChannelGroups(a, a, rest, np.zeros(0, np.intp), padded.shape[1], 0)


def pack_dot(channels: OutputChannels, has_nibbles: bool = False) -> Params:
    """Returns the fields of pillion_dsp_dot (kernels/dsp/dot.h), for weights of 8 or of 4 bits."""
    scaled = scale_channels(channels)
    groups, padded = (pair_nibbles if has_nibbles else pair_channels)(scaled), with_zero_channel(scaled)
    a, b, begins = groups.firsts, groups.firsts + 1, groups.begins_run(2, groups.rest)
    shifts = mark_run_ends(padded.rights[b] + 256 * padded.rights[a], begins)[:, None]
    nibbles = 16 * padded.weights[b] + padded.weights[a] + 8
    words = nibbles.view(np.int32) if has_nibbles else groups.pack(scaled)
    sums = initial_sums(padded, a, b, 16 if has_nibbles else 256)
    return {
        "stream": join_word_stream(sums, words, scales(padded, a, b), shifts),
        **groups.params(begins, 3),
        **{"lone": groups.rest, "out_c": len(channels.bias), "rectified": int(channels.is_rectified)},
    }


def with_zero_channel(scaled: ScaledChannels) -> ScaledChannels:
    """Returns the channels with inputs padded to fours and a channel of zeros at the end."""
    weights = np.pad(pad_inputs(scaled.weights), ((0, 1), (0, 0)))
    numbers = (scaled.sums, scaled.rounds, scaled.multipliers, scaled.rights, scaled.least, scaled.largest)
    return ScaledChannels(weights, *(np.append(n, np.ones(1, n.dtype)) for n in numbers))


def pad_inputs(weights: Int8Array) -> Int8Array:
    """Returns the weights with inputs padded to fours."""
    return np.pad(weights, ((0, 0), (0, -weights.shape[1] % 4)))


def pack_depthwise(channels: OutputChannels) -> Params:
    """Packs the constants of the depthwise kernels by output channel. Their accumulators hold twice the sum."""
    scaled = scale_channels(channels)
    rounds = 2 * scaled.rounds + (scaled.rights == 0)
    constants = np.stack([2 * scaled.sums, rounds, scaled.multipliers], axis=1)
    weights = scaled.weights.reshape(-1)
    return {
        "rectified": int(channels.is_rectified),
        "weights": np.append(weights, np.zeros(-weights.size % 4 or 4, np.int8)),
        "constants": numerics.wrap_to_32_bits(constants).astype(np.int32).reshape(-1),
    }


def group_starts(fits_b: NDArray[np.bool_], limited: Sequence[int] = (1, 3)) -> tuple[list[int], int]:
    """Returns the first channels of groups of four, and the number of remaining channels. The second and fourth of
    a group are B of their pairs; if one does not fit, the next group begins with it and overwrites its result."""
    starts, channel, count = [], 0, len(fits_b)
    while count - channel > 3:
        starts.append(channel)
        channel += next((place for place in limited if not fits_b[channel + place]), 4)
    return starts, count - channel


def pack_linear(scaled: ScaledChannels) -> Params:
    """Packs the constants that both fully connected kernels share (PILLION_LINEAR_FIELDS)."""
    groups = group_channels(scaled)
    begins = groups.begins_run(4)
    streams = [_pack_groups(scaled, groups, begins), _pack_remaining_channels(scaled, groups.rest)]
    return {"stream": np.concatenate(streams), **groups.params(begins, 1), "rest": groups.rest}


def _pack_groups(scaled: ScaledChannels, groups: ChannelGroups, begins: NDArray[np.bool_]) -> Int32Array:
    a, c = groups.firsts, groups.firsts + 2
    if not len(a):
        return np.zeros(0, np.int32)
    ab, cd = groups.pack(scaled).reshape(2, len(a), -1, 2)
    heads = initial_sums(scaled, a, a + 1), initial_sums(scaled, c, c + 1)
    words = np.concatenate([ab, cd], axis=2).reshape(len(a), -1)
    return join_word_stream(*heads, words, *group_constants(scaled, a, begins))


def group_constants(scaled: ScaledChannels, a: NDArray[np.intp], begins: Flags) -> tuple[Int64Array, ...]:
    """Returns the numbers behind the weights of groups of four: rounds, multipliers and right shifts."""
    c = a + 2
    bytes_of_shifts = zip((a + 1, a, c + 1, c), (0, 8, 16, 24), strict=True)
    shifts = mark_run_ends(sum(scaled.rights[part] << bit for part, bit in bytes_of_shifts), begins)
    return scales(scaled, a, a + 1), shifts[:, None], scales(scaled, c, c + 1)


def _pack_remaining_channels(scaled: ScaledChannels, count: int) -> Int32Array:
    """Packs the channels behind the groups, one by one."""
    rest = slice(len(scaled.sums) - count, None)
    numbers = np.stack([scaled.sums, scaled.rounds, scaled.multipliers], axis=1)[rest]
    return join_word_stream(numbers, pad_inputs(scaled.weights[rest]).view(np.int32))


def remaining_right_shifts(scaled: ScaledChannels, count: int) -> int:
    """Returns the right shifts of the channels behind the groups, one byte each."""
    return sum(int(right) << 8 * i for i, right in enumerate(scaled.rights[len(scaled.rights) - count :]))
