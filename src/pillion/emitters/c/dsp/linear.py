# SPDX-License-Identifier: Apache-2.0
"""The DSP kernels of fully connected layers."""

from __future__ import annotations

from dataclasses import replace

from pillion.emitters.c import once
from pillion.emitters.c.accumulators import Channels, channels_of
from pillion.emitters.c.conditions import constants, int8
from pillion.emitters.c.dsp import pack
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.library import DSP
from pillion.emitters.c.rescaled import Scaled, plain_sums, scale_channels
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.conv import Convolution
from pillion.ops.linear import Linear

LINEAR = DSP.routine("linear_s8", "clamp")
LINEAR_TFLITE = replace(LINEAR, name="pillion_linear_tflite_s8_dsp")
ROUTINES = (LINEAR, LINEAR_TFLITE)


def judge_operands(op: Convolution | Linear) -> tuple[Verdict, ...]:
    """Judges the element types, and whether weights and bias are constants."""
    return (*int8(x=op.x, weights=op.weights, y=op.y), *constants(weights=op.weights, bias=op.bias))


def takes_linear(op: Linear, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a fully connected layer is one that the kernel computes exactly; LiteRT's, scaled in double precision, are
    not."""
    rounding = Verdict(
        "arithmetic", arithmetic is not Arithmetic.TFLITE, "scaled in fixed point", arithmetic.value
    )
    operands = judge_operands(op)
    return (
        rounding,
        *operands,
        *(pack.dot_verdicts(channels_of(op)) if all_ok(operands) else ()),
    )


def linear_params(channels: Channels, rows: int) -> Params:
    """Gives the parameters of the fully connected kernel."""
    scaled = scale_channels(channels)
    rights = pack.rest_rights(scaled, pack.group_channels(scaled).rest)
    own = {
        "out_zp": channels.out_zp,
        "rectified": int(channels.is_rectified),
        "rest_rights": rights,
    }
    return {**layer_params(scaled, channels, rows), **own}


def layer_params(scaled: Scaled, channels: Channels, rows: int) -> Params:
    """Gives the parameters that both fully connected kernels have."""
    out_features, in_features = channels.weights.shape
    sizes = {"rows": rows, "in_features": in_features, "out_features": out_features}
    return {**pack.pack_linear(scaled), **sizes, "low": channels.low, "high": channels.high}


def calls_linear(op: Linear, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the fully connected kernel."""
    return (Call(LINEAR, linear_params(channels_of(op), op.rows), (op.x,), op.y),)


def scratch_linear(op: Linear) -> int:
    """Gives the scratch of the fully connected kernel: one widened row of inputs."""
    return pack.group_channels(scale_channels(channels_of(op))).row_bytes


def calls_linear_tflite(op: Linear, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the fully connected kernel whose sums are rounded once."""
    channels = channels_of(op)
    params = {**layer_params(plain_sums(channels), channels, op.rows), "once": once.packed(op)}
    return (Call(LINEAR_TFLITE, params, (op.x,), op.y),)


def scratch_linear_tflite(op: Linear) -> int:
    """Gives the scratch of that kernel: sums, and one widened row of inputs."""
    return 4 * op.out_features + pack.group_channels(plain_sums(channels_of(op))).row_bytes


KERNELS: tuple[Kernel, ...] = (
    DSP.row(Linear, calls_linear, takes_linear, name="linear", scratch_bytes=scratch_linear),
    DSP.row(
        Linear, calls_linear_tflite, once.judge, name="linear_tflite", scratch_bytes=scratch_linear_tflite
    ),
)
