# SPDX-License-Identifier: Apache-2.0
"""The convolutions and fully connected layers of cores without SIMD: three pixels by two output channels at a
time."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.accumulators import Channels, Int32Array, channels_of
from pillion.emitters.c.channel_scaling import ScaledChannels, right_shifts, scale_channels, sums_fit
from pillion.emitters.c.kernel import Call, CallCost, Kernel, Params
from pillion.emitters.c.kernel_conditions import layer_operands
from pillion.emitters.c.kernel_library import SCALAR
from pillion.emitters.c.portable.conv import image, window
from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.conv import Conv2d, Convolution
from pillion.ops.linear import Linear

PIXELS = 3
PAIR = 2
FOUR = 4
"""Inputs for each iteration of the inner loop."""

CONV_1X1 = SCALAR.routine("conv2d_1x1_s8", "dot")
CONV = SCALAR.routine("conv2d_s8", "dot")


def check_sums(op: Convolution | Linear) -> tuple[Verdict, ...]:
    """Checks the element types, whether weights and bias are constant, and whether sums and shifts are within the
    kernels' limits."""
    operands = layer_operands(op)
    if not all_ok(operands):
        return operands
    scaled = scale_channels(channels_of(op))
    return (*operands, right_shifts(scaled), sums_fit(scaled))


def check_pairs(op: Convolution | Linear, channels: int) -> tuple[Verdict, ...]:
    """Checks the conditions of sums, and whether there are at least two output channels."""
    return (Verdict("out_channels", channels >= PAIR, f"at least {PAIR}", str(channels)), *check_sums(op))


def check_conv(op: Conv2d, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether the kernel of any window computes a convolution exactly."""
    one_group = Verdict("groups", op.groups == 1, "1", str(op.groups))
    return (one_group, *check_pairs(op, op.out_channels))


def check_1x1(op: Conv2d, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether the kernel of 1x1 windows computes a convolution exactly."""
    got = f"{op.kernel}, stride {op.stride}, padding {op.padding}"
    plain = (op.kernel, op.stride, op.padding) == ((1, 1), (1, 1), (0, 0, 0, 0))
    return (Verdict("window", plain, "1x1, stride 1, no padding", got), *check_conv(op, arithmetic))


def check_linear(op: Linear, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether the kernel computes a fully connected layer exactly; not one of LiteRT, rescaled in double
    precision."""
    rounding = Verdict(
        "arithmetic", arithmetic is Arithmetic.CMSIS_NN, Arithmetic.CMSIS_NN.value, arithmetic.value
    )
    return (rounding, *check_pairs(op, op.out_features))


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
    return numerics.wrap32(columns).astype(np.int32)


def pack(channels: Channels) -> Params:
    """Returns the fields PILLION_SCALAR_FIELDS (kernels/include/pillion/scalar.h)."""
    scaled = scale_channels(channels)
    count, inputs = scaled.weights.shape
    pairs = pair_channels(count)
    weights = np.pad(scaled.weights, ((0, 0), (0, -inputs % FOUR)))[pairs].swapaxes(1, 2)
    biases = numerics.wrap32(scaled.sums).astype(np.int32)[pairs]
    numbers = np.concatenate([biases, channel_scales(scaled)[pairs].reshape(len(pairs), -1)], axis=1)
    return {
        "weights": np.ascontiguousarray(weights, np.int8).reshape(-1),
        "constants": np.ascontiguousarray(numbers).reshape(-1),
        "inputs": padded_inputs(inputs),
        "out_c": count,
        "low": channels.low,
        "high": channels.high,
    }


def calls_1x1(op: Conv2d, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of the kernel of 1x1 windows."""
    n, h, w, _ = op.y.shape
    return (_pixels(op, n * h * w, op.in_channels),)


def calls_linear(op: Linear, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of the kernel of 1x1 windows, with rows as pixels."""
    return (_pixels(op, op.rows, op.in_features),)


def _pixels(op: Conv2d | Linear, pixels: int, in_c: int) -> Call:
    return Call(CONV_1X1, {**pack(channels_of(op)), "pixels": pixels, "in_c": in_c}, (op.x,), op.y)


def calls_conv(op: Conv2d, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of the kernel of any window."""
    params = {**pack(channels_of(op)), **image(op), **window(op), "in_zp": op.x.zero_point}
    return (Call(CONV, params, (op.x,), op.y),)


def block_bytes(inputs: int) -> int:
    """Returns the size of the widened inputs of three pixels."""
    return 4 * PIXELS * padded_inputs(inputs)


KERNELS: tuple[Kernel, ...] = (
    SCALAR.kernel(
        Conv2d,
        calls_1x1,
        check_1x1,
        name="conv2d_1x1",
        scratch_bytes=lambda op: block_bytes(op.in_channels),
        overread_bytes=FOUR - 1,
    ),
    SCALAR.kernel(
        Conv2d,
        calls_conv,
        check_conv,
        name="conv2d",
        scratch_bytes=lambda op: block_bytes(op.weights_per_output.shape[1]),
        call_cost=CallCost(120.0),
    ),
    SCALAR.kernel(
        Linear,
        calls_linear,
        check_linear,
        name="linear",
        scratch_bytes=lambda op: block_bytes(op.in_features) if op.rows >= PIXELS else 0,
        overread_bytes=FOUR - 1,
    ),
)
