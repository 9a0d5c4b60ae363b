# SPDX-License-Identifier: Apache-2.0
"""The convolutions and fully connected layers of cores without SIMD: three pixels by two output channels at a
time."""

from __future__ import annotations

import math

import numpy as np

from pillion.emitters.c.accumulators import Int32Array, OutputChannels, channels_meet, channels_of
from pillion.emitters.c.channel_scaling import (
    ScaledChannels,
    check_right_shifts,
    rounding_is_exact,
    scale_channels,
)
from pillion.emitters.c.kernel import CallCost, Kernel, Params
from pillion.emitters.c.kernel_conditions import Check, all_of, field_equals, in_arithmetic, is_within
from pillion.emitters.c.kernel_library import SCALAR
from pillion.emitters.c.portable.conv import plain_1x1
from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Array
from pillion.ops.conv import Conv2d
from pillion.ops.linear import Linear

PIXELS = 3
PAIR = 2
FOUR = 4
"""Inputs for each iteration of the inner loop."""

SUMS = channels_meet(
    lambda channels: (check_right_shifts(s := scale_channels(channels)), rounding_is_exact(s))
)
"""Sums and shifts are within the kernels' limits."""
TWO_CHANNELS = all_of(lambda op: is_within("out_channels", op.bias.type.elements, PAIR), SUMS)


def padded_inputs(count: int) -> int:
    """Returns the inputs of a sum, rounded up to complete iterations of the loop."""
    return -(-count // FOUR) * FOUR


def pair_channels(count: int) -> Array:
    """Returns [pairs, 2]: the channels of each pair; the last pair is the last two channels."""
    firsts = np.minimum(np.arange(0, count, PAIR), count - PAIR)
    return firsts[:, None] + np.arange(PAIR)


def channel_scales(scaled: ScaledChannels) -> Int32Array:
    """Returns [channels, 3]: rounding constant, multiplier and right shift of each channel."""
    columns = np.stack([scaled.rounds, scaled.multipliers, scaled.rights], axis=1)
    return numerics.wrap_to_32_bits(columns).astype(np.int32)


def pack(channels: OutputChannels) -> Params:
    """Returns the fields PILLION_SCALAR_FIELDS (kernels/include/pillion/scalar.h)."""
    scaled = scale_channels(channels)
    count, inputs = scaled.weights.shape
    pairs = pair_channels(count)
    weights = np.pad(scaled.weights, ((0, 0), (0, -inputs % FOUR)))[pairs].swapaxes(1, 2)
    biases = numerics.wrap_to_32_bits(scaled.sums).astype(np.int32)[pairs]
    numbers = np.concatenate([biases, channel_scales(scaled)[pairs].reshape(len(pairs), -1)], axis=1)
    return {
        "weights": np.ascontiguousarray(weights, np.int8).reshape(-1),
        "constants": np.ascontiguousarray(numbers).reshape(-1),
        "inputs": padded_inputs(inputs),
        "out_c": count,
    }


def block_bytes(inputs: int) -> int:
    """Returns the size of the widened inputs of three pixels."""
    return 4 * PIXELS * padded_inputs(inputs)


CONV: tuple[Check[Conv2d], ...] = (field_equals("groups", 1), TWO_CHANNELS)
KERNELS: tuple[Kernel, ...] = (
    SCALAR.kernel(
        Conv2d,
        "conv2d_1x1_s8",
        lambda op: {**pack(channels_of(op)), "pixels": math.prod(op.y.shape[:3])},
        requires=(plain_1x1, *CONV),
        scratch_bytes=lambda op: block_bytes(op.in_channels),
        overread_bytes=FOUR - 1,
        also=("dot",),
    ),
    SCALAR.kernel(
        Conv2d,
        "conv2d_s8",
        lambda op: pack(channels_of(op)),
        requires=CONV,
        scratch_bytes=lambda op: block_bytes(op.weights_per_output.shape[1]),
        call_cost=CallCost(120.0),
        also=("dot",),
    ),
    SCALAR.kernel(
        Linear,
        "conv2d_1x1_s8",
        lambda op: {**pack(channels_of(op)), "pixels": op.rows, "in_c": op.in_features},
        requires=(in_arithmetic(Arithmetic.CMSIS_NN), TWO_CHANNELS),
        scratch_bytes=lambda op: block_bytes(op.in_features) if op.rows >= PIXELS else 0,
        overread_bytes=FOUR - 1,
        also=("dot",),
    ),
)
