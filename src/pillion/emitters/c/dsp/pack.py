# SPDX-License-Identifier: Apache-2.0
"""Constants of the DSP kernels (kernels/dsp) in the order of their loops, and the proofs that these loops are exact."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.accumulators import Channels, Int8Array, Int32Array, Int64Array
from pillion.emitters.c.kernel import Params
from pillion.emitters.c.rescaled import Scaled, right_shifts, scale_channels, sums_fit
from pillion.ir import numerics
from pillion.ir.verdict import Verdict

B_LIMIT = 2**23
"""S_B is carried in the upper 24 bits of a sum."""
SUMS_AT_ONCE = 2**20
"""How many running sums are held in memory: they are eight times as wide as weights."""
INPUTS_OF_ROUND = 32
"""The inner loops take eight times four inputs before they look where to go on."""


def dot_verdicts(channels: Channels) -> tuple[Verdict, ...]:
    """Judges what the dot products of three pixels need to be exact."""
    scaled = scale_channels(channels)
    return right_shifts(scaled), sums_fit(scaled)


@dataclass(frozen=True)
class Parts:
    """How often S_B is set aside so that it never passes its limit, and for which channels that suffices."""

    rounds: int
    """Rounds of the loop to a part; 0 where whole sums fit."""
    fits_b: NDArray[np.bool_]


def choose_parts(scaled: Scaled) -> Parts:
    """Chooses the longest parts with which all channels fit, or else as many as possible."""
    whole = scaled.reach < B_LIMIT
    rounds = -(-scaled.weights.shape[1] // INPUTS_OF_ROUND)
    best = Parts(0, whole)
    while not best.fits_b.all() and rounds > 1:
        rounds = (rounds + 1) // 2
        fits = part_reach(scaled, rounds) < B_LIMIT
        best = Parts(rounds, fits) if fits.sum() > best.fits_b.sum() else best
    return best


def part_reach(scaled: Scaled, rounds: int) -> Int64Array:
    """Gives a bound for the sums of any inputs that follow one another for so many rounds, with the bias and with inputs that come
    twice."""
    length = rounds * INPUTS_OF_ROUND + 4
    channels, inputs = scaled.weights.shape
    at_once = max(1, SUMS_AT_ONCE // (inputs + 1))
    blocks = (scaled.weights[first : first + at_once] for first in range(0, channels, at_once))
    largest = np.concatenate([_largest_windows(block, length) for block in blocks])
    twice = (scaled.weights == -128).sum(axis=1)
    return np.abs(scaled.sums) + 128 * (largest + twice)


def _largest_windows(weights: Int8Array, length: int) -> Int64Array:
    """The largest sum of magnitudes in each row of so many neighbours."""
    ends = np.pad(np.cumsum(np.abs(weights.astype(np.int64)), axis=1), ((0, 0), (1, 0)))
    last = np.minimum(np.arange(ends.shape[1]) + length, ends.shape[1] - 1)
    return np.asarray((ends[:, last] - ends).max(axis=1))


def pair_starts(fits_b: NDArray[np.bool_]) -> tuple[list[int], bool]:
    """Gives the first channels of the pairs, and whether the last pair is a channel alone. A channel that does not fit B is
    computed there nevertheless, wrongly, and once more as the A of the next pair, which overwrites it."""
    starts, channel = [], 0
    while channel < len(fits_b):
        starts.append(channel)
        channel += 2 if channel + 1 < len(fits_b) and fits_b[channel + 1] else 1
    return starts, starts[-1] == len(fits_b) - 1


def begins_run(starts: NDArray[np.intp], width: int, alone: int = 0) -> NDArray[np.bool_]:
    """Says which groups of `width` channels do not follow the one before; the last `alone` of them never do."""
    begins = np.diff(starts, prepend=-1) != width
    begins[len(starts) - alone :] = True
    begins[:1] = True
    return begins


def with_ends(shifts: Int64Array, begins: NDArray[np.bool_]) -> Int64Array:
    """Marks the ends of runs: the sign bit of a group's shifts says that a run ends with it."""
    return shifts | np.where(np.append(begins[1:], True), np.int64(1) << 31, 0)


def inputs_wanted_twice(a: Int8Array, b: Int8Array) -> NDArray[np.intp]:
    """Finds the inputs that come twice: 256 * -128 + A does not fit 16 bits where A is negative."""
    return np.flatnonzero(((b == -128) & (a < 0)).any(axis=0))


def split_repeats(a: Int8Array, b: Int8Array, repeats: NDArray[np.intp]) -> tuple[Int8Array, Int8Array]:
    """Splits a weight of an input that comes twice: -128 becomes -127 and, at the second place, -1."""
    clash = (b[:, repeats] == -128) & (a[:, repeats] < 0)
    b = b.copy()
    b[:, repeats] += clash
    return np.hstack([a, np.zeros_like(clash, np.int8)]), np.hstack([b, -clash.astype(np.int8)])


def moves_of(repeats: NDArray[np.intp], inputs: int, words: int) -> NDArray[np.uint16]:
    """Gives {from, to} in halfwords for inputs wanted twice, where inputs 0 and 2 of four are `words` words before 1 and 3."""

    def halfword(k: NDArray[np.intp]) -> NDArray[np.intp]:
        return k // 4 * 4 * words + k % 2 * 2 * words + k % 4 // 2

    if not len(repeats):
        return np.zeros(1, np.uint16)  # C has no empty arrays
    places = np.arange(inputs, inputs + len(repeats))
    return np.stack([halfword(repeats), halfword(places)], axis=1).astype(np.uint16).reshape(-1)


def in_fours(count: int) -> int:
    """Counts the groups of four that hold so many."""
    return -(-count // 4)


def pack_pairs(a: Int8Array, b: Int8Array) -> Int32Array:
    """Packs weights [pairs, inputs] of A and B in words of two halves 256 * B + A: inputs 0 and 2, 1 and 3 of every four."""
    both = 256 * b.astype(np.int16) + a  # it wraps as the halves of the words do
    padded = np.pad(both, ((0, 0), (0, -both.shape[1] % 4)))
    fours = padded.reshape(len(padded), -1, 2, 2).swapaxes(2, 3)
    return np.ascontiguousarray(fours).view(np.int32).reshape(len(padded), -1)


def starts_of_sums(scaled: Scaled, a: NDArray[np.intp], b: NDArray[np.intp]) -> Int64Array:
    """Gives [pairs, 2]: what T = S_A + 256 S_B and S_A begin with."""
    return np.stack([scaled.sums[a] + 256 * scaled.sums[b], scaled.sums[a]], axis=1)


def scales(scaled: Scaled, a: NDArray[np.intp], b: NDArray[np.intp]) -> Int64Array:
    """Gives [pairs, 4]: `round` and multiplier of B and of A."""
    return np.stack(
        [scaled.rounds[b], scaled.multipliers[b], scaled.rounds[a], scaled.multipliers[a]], axis=1
    )


def stream_of(*parts: Int64Array | Int32Array) -> Int32Array:
    """Joins columns of numbers into one stream of 32-bit words, in the order in which a kernel reads it."""
    narrow = [p if p.dtype == np.int32 else numerics.wrap32(p).astype(np.int32) for p in parts]
    return np.asarray(np.hstack(narrow).reshape(-1), np.int32)


@dataclass(frozen=True)
class Pairing:
    """Which channels are computed together, and which inputs these pairs want twice."""

    a: NDArray[np.intp]
    b: NDArray[np.intp]
    lone: bool
    repeats: NDArray[np.intp]
    inputs: int
    part_rounds: int

    @property
    def steps(self) -> int:
        """Counts the steps of four inputs, those that are wanted twice included."""
        return in_fours(self.inputs + len(self.repeats))

    @property
    def jumps(self) -> int:
        """The entries of the list by which the loop goes from round to round."""
        return jumps(self.steps - 1, self.part_rounds)


def pair_channels(scaled: Scaled) -> Pairing:
    """Makes pairs of neighbours; the B of a channel alone is the one after the last, which is nothing."""
    parts = choose_parts(scaled)
    starts, lone = pair_starts(parts.fits_b)
    a = np.array(starts)
    weights = with_nothing(scaled).weights
    repeats = inputs_wanted_twice(weights[a], weights[a + 1])
    return Pairing(a, a + 1, lone, repeats, weights.shape[1], parts.rounds)


def jumps(steps: int, part_rounds: int) -> int:
    """Gives the list of jumps of a loop: one for each round and one to end; with parts, one to begin and one between two of them."""
    rounds = -(-4 * steps // INPUTS_OF_ROUND)
    return rounds + 1 + (1 + max(rounds - 1, 0) // part_rounds if part_rounds else 0)


def pack_dot(channels: Channels) -> Params:
    """Gives the fields of pillion_dsp_dot (kernels/dsp/dot.h)."""
    scaled = scale_channels(channels)
    pairing = pair_channels(scaled)
    a, b, scaled = pairing.a, pairing.b, with_nothing(scaled)
    words = pack_pairs(*split_repeats(scaled.weights[a], scaled.weights[b], pairing.repeats))
    begins = begins_run(a, 2, int(pairing.lone))
    shifts = with_ends(scaled.rights[b] + 256 * scaled.rights[a], begins)
    return {
        "stream": stream_of(starts_of_sums(scaled, a, b), words, scales(scaled, a, b), shifts[:, None]),
        "runs": a[begins].astype(np.uint16),
        "repeats": moves_of(pairing.repeats, pairing.inputs, 3),
        "run_count": int(begins.sum()),
        "repeat_count": len(pairing.repeats),
        "lone": int(pairing.lone),
        "steps": pairing.steps,
        "out_c": len(channels.bias),
        "rectified": int(channels.is_rectified),
        "part_rounds": pairing.part_rounds,
    }


def with_nothing(scaled: Scaled) -> Scaled:
    """Gives whole fours of inputs, and one more channel at the end: zeros, with which a channel is paired that is alone."""
    weights = np.pad(in_whole_fours(scaled.weights), ((0, 1), (0, 0)))
    numbers = (scaled.sums, scaled.rounds, scaled.multipliers, scaled.rights, scaled.least, scaled.largest)
    return Scaled(weights, *(np.append(n, np.ones(1, n.dtype)) for n in numbers))


def in_whole_fours(weights: Int8Array) -> Int8Array:
    """Gives whole words of inputs, the last one filled up with zeros."""
    return np.pad(weights, ((0, 0), (0, -weights.shape[1] % 4)))


def pack_depthwise(channels: Channels) -> Params:
    """Packs the constants of the depthwise kernels, by output channel. Their sums are twice what they should be."""
    scaled = scale_channels(channels)
    constants = np.stack([2 * scaled.sums, scaled.rounds, scaled.multipliers], axis=1)
    weights = scaled.weights.reshape(-1)
    return {
        "rectified": int(channels.is_rectified),
        "weights": np.append(weights, np.zeros(-weights.size % 4 or 4, np.int8)),
        "constants": numerics.wrap32(constants).astype(np.int32).reshape(-1),
    }


def group_starts(fits_b: NDArray[np.bool_]) -> tuple[list[int], int]:
    """Gives the first channels of groups of four, and how many channels are left. The second and the fourth of a group are B of
    their pairs; where one does not fit, the next group begins with it and overwrites what came out."""
    starts, channel, count = [], 0, len(fits_b)
    while count - channel > 3:
        starts.append(channel)
        channel += 1 if not fits_b[channel + 1] else 3 if not fits_b[channel + 3] else 4
    return starts, count - channel


@dataclass(frozen=True)
class Grouping:
    """Which channels are computed together by the fully connected kernel."""

    a: NDArray[np.intp]
    """The first of each group."""
    rest: int
    """Channels behind the groups."""
    repeats: NDArray[np.intp]
    inputs: int
    part_rounds: int

    @property
    def steps(self) -> int:
        """Counts the steps of four inputs, those that are wanted twice included."""
        return in_fours(self.inputs + len(self.repeats))

    @property
    def row_bytes(self) -> int:
        """The scratch of the fully connected kernel: the widened row, and the jumps."""
        return 8 * self.steps + 4 * jumps(self.steps, self.part_rounds)


def group_channels(scaled: Scaled) -> Grouping:
    """Chooses which channels the fully connected kernel computes together."""
    parts = choose_parts(scaled)
    starts, rest = group_starts(parts.fits_b)
    a = np.array(starts, np.intp)
    firsts = np.concatenate([a, a + 2])
    weights = in_whole_fours(scaled.weights)
    repeats = inputs_wanted_twice(weights[firsts], weights[firsts + 1])
    return Grouping(a, rest, repeats, weights.shape[1], parts.rounds)


def pack_linear(scaled: Scaled) -> Params:
    """Packs the constants that both fully connected kernels have (PILLION_LINEAR_FIELDS)."""
    group = group_channels(scaled)
    begins = begins_run(group.a, 4)
    return {
        "stream": np.concatenate([_pack_groups(scaled, group, begins), _pack_rest(scaled, group.rest)]),
        "runs": group.a[begins].astype(np.uint16) if len(group.a) else np.zeros(1, np.uint16),
        "repeats": moves_of(group.repeats, group.inputs, 1),
        "run_count": int(begins.sum()),
        "repeat_count": len(group.repeats),
        "rest": group.rest,
        "steps": group.steps,
        "part_rounds": group.part_rounds,
    }


def _pack_groups(scaled: Scaled, group: Grouping, begins: NDArray[np.bool_]) -> Int32Array:
    a, c = group.a, group.a + 2
    if not len(a):
        return np.zeros(0, np.int32)
    weights, firsts = in_whole_fours(scaled.weights), np.concatenate([a, c])
    words = pack_pairs(*split_repeats(weights[firsts], weights[firsts + 1], group.repeats))
    ab, cd = words.reshape(2, len(a), -1, 2)
    bytes_of_shifts = zip((a + 1, a, c + 1, c), (0, 8, 16, 24), strict=True)
    shifts = with_ends(sum(scaled.rights[part] << place for part, place in bytes_of_shifts), begins)
    heads = starts_of_sums(scaled, a, a + 1), starts_of_sums(scaled, c, c + 1)
    tails = scales(scaled, a, a + 1), shifts[:, None], scales(scaled, c, c + 1)
    return stream_of(*heads, np.concatenate([ab, cd], axis=2).reshape(len(a), -1), *tails)


def _pack_rest(scaled: Scaled, count: int) -> Int32Array:
    """The last channels, one by one."""
    rest = slice(len(scaled.sums) - count, None)
    numbers = np.stack([scaled.sums, scaled.multipliers], axis=1)[rest]
    return stream_of(numbers, in_whole_fours(scaled.weights[rest]).view(np.int32))


def rest_rights(scaled: Scaled, count: int) -> int:
    """Gives the right shifts of the last channels, a byte each."""
    return sum(int(right) << 8 * i for i, right in enumerate(scaled.rights[len(scaled.rights) - count :]))
