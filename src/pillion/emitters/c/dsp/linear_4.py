# SPDX-License-Identifier: Apache-2.0
"""The constants of kernels/dsp/linear_s4_dsp.c, and the conditions under which its sums are exact."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.accumulators import Int32Array, channels_of
from pillion.emitters.c.channel_scaling import ScaledChannels, scale_channels, unscaled_channels
from pillion.emitters.c.dsp import pack
from pillion.emitters.c.dsp.linear import FullyConnected
from pillion.emitters.c.kernel import Params
from pillion.emitters.c.kernel_conditions import is_within
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d
from pillion.ops.linear import Linear

D_LIMIT = 2**19
"""The bound of S_D, which occupies the upper 20 bits of an accumulator."""
LIMIT = 2**23
"""The bound of S_C + 8 * sum(x), which occupies the upper 24 bits of an accumulator."""
PLACES = 4096, 256, 16, 1
"""The factors of D, C, B and A in a halfword."""


def sums_are_exact(op: Conv2d | Linear) -> Verdict:
    """Checks whether the sums of every channel and of 8 times the inputs fit their bits."""
    return _sums_fit(scale_channels(channels_of(op)))


def sums_alone_are_exact(op: Linear) -> Verdict:
    """Checks the conditions of sums that are rounded once."""
    return _sums_fit(unscaled_channels(channels_of(op)))


def _sums_fit(scaled: ScaledChannels) -> Verdict:
    reach = int(scaled.reach.max()) + 8 * 128 * scaled.weights.shape[1]
    return is_within("sum", reach, most=LIMIT - 1)


def groups_of(scaled: ScaledChannels) -> pack.ChannelGroups:
    """Groups channels by four; the last one of a group must fit D."""
    parts = pack.choose_spill_interval(scaled, D_LIMIT)
    starts, rest = pack.group_starts(parts.fits_b, (3,))
    firsts, inputs = np.array(starts, np.intp), scaled.weights.shape[1]
    return pack.ChannelGroups(firsts, firsts, rest, np.zeros(0, np.intp), inputs, parts.rounds)


def pack_channels(scaled: ScaledChannels) -> Params:
    """Returns the stream of the channels, and their groups."""
    groups = groups_of(scaled)
    begins = groups.begins_run(4)
    stream = np.concatenate([_groups(scaled, groups, begins), _rest(scaled, groups.rest)])
    return {"stream": stream, **groups.params(begins, 1), "rest": groups.rest}


def row_bytes(scaled: ScaledChannels) -> int:
    """Returns the scratch bytes of a widened row of eights, and of the jumps, one more for four inputs."""
    groups = groups_of(scaled)
    return groups.row_bytes + 8 * (groups.steps % 2) + 4


OF_NIBBLES = FullyConnected(pack_channels, row_bytes)


def _groups(scaled: ScaledChannels, groups: pack.ChannelGroups, begins: pack.Flags) -> Int32Array:
    a = groups.firsts
    if not len(a):
        return np.zeros(0, np.int32)
    padded = pack.pad_inputs(scaled.weights).astype(np.int32)  # the row ends with numbers of no meaning
    of_d, of_c, of_b, of_a = (padded[a + i] + 8 * (i < 3) for i in (3, 2, 1, 0))
    halfwords = sum(place * weights for place, weights in zip(PLACES, (of_d, of_c, of_b, of_a), strict=True))
    d, c, b, own = (scaled.sums[a + i] for i in (3, 2, 1, 0))
    v, w = 16 * b + own, 256 * c
    heads = np.stack([4096 * d + v + w, v, w, own], axis=1)
    words = pack.pack_halfwords(np.asarray(halfwords).astype(np.int16))
    return pack.join_word_stream(heads, words, *pack.group_constants(scaled, a, begins))


def _rest(scaled: ScaledChannels, count: int) -> Int32Array:
    """Packs the channels behind the groups, one by one, four bits of weights + 8."""
    rest = slice(len(scaled.sums) - count, None)
    numbers = np.stack([2 * scaled.sums, scaled.rounds, scaled.multipliers], axis=1)[rest]
    weights = scaled.weights[rest].astype(np.int64)
    unused = -weights.shape[1] % 8
    padded = np.pad(weights, ((0, 0), (0, unused))) + 8
    eights = padded.reshape(count, padded.shape[1] // 8, 2, 2, 2)
    bits = np.array([[[0, 4], [16, 20]], [[8, 12], [24, 28]]])  # of inputs 0 1, 2 3, 4 5, 6 7
    return pack.join_word_stream(numbers, (eights << bits).sum(axis=(2, 3, 4)))
