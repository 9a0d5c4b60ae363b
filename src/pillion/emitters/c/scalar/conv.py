# SPDX-License-Identifier: Apache-2.0
"""The convolutions and fully connected layers of cores without SIMD: three pixels meet two output channels."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.accumulators import Channels, Int32Array, channels_of
from pillion.emitters.c.conditions import constants, int8
from pillion.emitters.c.kernel import Call, CallCost, Kernel, Params, Routine
from pillion.emitters.c.library import SCALAR
from pillion.emitters.c.portable.conv import window
from pillion.emitters.c.rescaled import Scaled, right_shifts, scale_channels, sums_fit
from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.conv import Conv2d, Convolution
from pillion.ops.linear import Linear

PIXELS = 3
PAIR = 2
FOUR = 4
"""Inputs of a round of the loop."""

CONV_1X1 = SCALAR.routine("conv2d_1x1_s8", "dot")
CONV = SCALAR.routine("conv2d_s8", "dot")
ROUTINES: tuple[Routine, ...] = (CONV_1X1, CONV)


def takes_sums(op: Convolution | Linear) -> tuple[Verdict, ...]:
    """Judges element types, whether weights and bias are constants, and whether sums and their shifts are those that the kernels have."""
    operands = (*int8(x=op.x, weights=op.weights, y=op.y), *constants(weights=op.weights, bias=op.bias))
    if not all_ok(operands):
        return operands
    scaled = scale_channels(channels_of(op))
    return (*operands, right_shifts(scaled), sums_fit(scaled))


def takes_pairs(op: Convolution | Linear, channels: int) -> tuple[Verdict, ...]:
    """Judges whether there are two output channels, besides what any sum needs."""
    return (Verdict("out_channels", channels >= PAIR, f"at least {PAIR}", str(channels)), *takes_sums(op))


def takes_conv(op: Conv2d, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a convolution is one that the kernel of any window computes exactly."""
    one_group = Verdict("groups", op.groups == 1, "1", str(op.groups))
    return (one_group, *takes_pairs(op, op.out_channels))


def takes_1x1(op: Conv2d, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a convolution is one that the kernel of plain 1x1 windows computes exactly."""
    got = f"{op.kernel}, stride {op.stride}, padding {op.padding}"
    plain = (op.kernel, op.stride, op.padding) == ((1, 1), (1, 1), (0, 0, 0, 0))
    return (Verdict("window", plain, "1x1, stride 1, no padding", got), *takes_conv(op, arithmetic))


def takes_linear(op: Linear, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a fully connected layer is one that the kernel computes exactly; LiteRT's, scaled in double precision, are
    not."""
    rounding = Verdict(
        "arithmetic", arithmetic is Arithmetic.CMSIS_NN, Arithmetic.CMSIS_NN.value, arithmetic.value
    )
    return (rounding, *takes_pairs(op, op.out_features))


def in_fours(count: int) -> int:
    """Gives the inputs of a sum in whole rounds of the loop."""
    return -(-count // FOUR) * FOUR


def pair_channels(count: int) -> Array:
    """Gives [pairs, 2]: the channels of each pair; the last pair is the last two."""
    firsts = np.minimum(np.arange(0, count, PAIR), count - PAIR)
    return firsts[:, None] + np.arange(PAIR)


def scales_of(scaled: Scaled) -> Int32Array:
    """Gives [channels, 3]: round, multiplier and right shift of each."""
    columns = np.stack([scaled.rounds, scaled.multipliers, scaled.rights], axis=1)
    return numerics.wrap32(columns).astype(np.int32)


def pack(channels: Channels) -> Params:
    """Gives the fields PILLION_SCALAR_FIELDS (kernels/include/pillion/scalar.h)."""
    scaled = scale_channels(channels)
    count, inputs = scaled.weights.shape
    pairs = pair_channels(count)
    weights = np.pad(scaled.weights, ((0, 0), (0, -inputs % FOUR)))[pairs].swapaxes(1, 2)
    biases = numerics.wrap32(scaled.sums).astype(np.int32)[pairs]
    numbers = np.concatenate([biases, scales_of(scaled)[pairs].reshape(len(pairs), -1)], axis=1)
    return {
        "weights": np.ascontiguousarray(weights, np.int8).reshape(-1),
        "constants": np.ascontiguousarray(numbers).reshape(-1),
        "inputs": in_fours(inputs),
        "out_c": count,
        "low": channels.low,
        "high": channels.high,
    }


def calls_1x1(op: Conv2d, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the kernel of plain 1x1 windows."""
    n, h, w, _ = op.y.shape
    return (_pixels(op, n * h * w, op.in_channels),)


def calls_linear(op: Linear, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the kernel of plain 1x1 windows: rows are its pixels."""
    return (_pixels(op, op.rows, op.in_features),)


def _pixels(op: Conv2d | Linear, pixels: int, in_c: int) -> Call:
    return Call(CONV_1X1, {**pack(channels_of(op)), "pixels": pixels, "in_c": in_c}, (op.x,), op.y)


def calls_conv(op: Conv2d, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the kernel of any window."""
    batch, in_h, in_w, in_c = op.x.shape
    sizes = {"batch": batch, "in_h": in_h, "in_w": in_w, "in_c": in_c}
    sizes |= {"out_h": op.y.shape[1], "out_w": op.y.shape[2]}
    params = {**pack(channels_of(op)), **sizes, **window(op), "in_zp": op.x.zero_point}
    return (Call(CONV, params, (op.x,), op.y),)


def block_bytes(inputs: int) -> int:
    """Gives the size of the widened inputs of three pixels."""
    return 4 * PIXELS * in_fours(inputs)


KERNELS: tuple[Kernel, ...] = (
    SCALAR.row(
        Conv2d,
        calls_1x1,
        takes_1x1,
        name="conv2d_1x1",
        scratch_bytes=lambda op: block_bytes(op.in_channels),
        overread_bytes=FOUR - 1,
    ),
    SCALAR.row(
        Conv2d,
        calls_conv,
        takes_conv,
        name="conv2d",
        scratch_bytes=lambda op: block_bytes(op.weights_per_output.shape[1]),
        each_call=CallCost(120.0),
    ),
    SCALAR.row(
        Linear,
        calls_linear,
        takes_linear,
        name="linear",
        scratch_bytes=lambda op: block_bytes(op.in_features) if op.rows >= PIXELS else 0,
        overread_bytes=FOUR - 1,
    ),
)
