# SPDX-License-Identifier: Apache-2.0
"""The DSP kernels of fully connected layers."""

from __future__ import annotations

from dataclasses import replace

from pillion.emitters.c import single_rounding
from pillion.emitters.c.accumulators import Channels, channels_of
from pillion.emitters.c.channel_scaling import ScaledChannels, scale_channels, unscaled
from pillion.emitters.c.dsp import pack
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.kernel_conditions import layer_operands
from pillion.emitters.c.kernel_library import DSP
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.linear import Linear

LINEAR = DSP.routine("linear_s8", "clamp")
LINEAR_TFLITE = replace(LINEAR, name="pillion_linear_tflite_s8_dsp")


def check_linear(op: Linear, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether the kernel computes a fully connected layer exactly; not one of LiteRT, rescaled in double
    precision."""
    rounding = Verdict(
        "arithmetic", arithmetic is not Arithmetic.TFLITE, "scaled in fixed point", arithmetic.value
    )
    operands = layer_operands(op)
    return (
        rounding,
        *operands,
        *(pack.dot_verdicts(channels_of(op)) if all_ok(operands) else ()),
    )


def linear_params(channels: Channels, rows: int) -> Params:
    """Returns the parameters of the fully connected kernel."""
    scaled = scale_channels(channels)
    rights = pack.rest_rights(scaled, pack.group_channels(scaled).rest)
    own = {
        "out_zp": channels.out_zp,
        "rectified": int(channels.is_rectified),
        "rest_rights": rights,
    }
    return {**layer_params(scaled, channels, rows), **own}


def layer_params(scaled: ScaledChannels, channels: Channels, rows: int) -> Params:
    """Returns the parameters that both fully connected kernels share."""
    out_features, in_features = channels.weights.shape
    sizes = {"rows": rows, "in_features": in_features, "out_features": out_features}
    return {**pack.pack_linear(scaled), **sizes, "low": channels.low, "high": channels.high}


def calls_linear(op: Linear, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of the fully connected kernel."""
    return (Call(LINEAR, linear_params(channels_of(op), op.rows), (op.x,), op.y),)


def scratch_linear(op: Linear) -> int:
    """Returns the scratch bytes of the fully connected kernel: one widened row of inputs."""
    return pack.group_channels(scale_channels(channels_of(op))).row_bytes


def calls_linear_tflite(op: Linear, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of the fully connected kernel with single rounding."""
    channels = channels_of(op)
    params = {
        **layer_params(unscaled(channels), channels, op.rows),
        "once": single_rounding.packed_numbers(op),
    }
    return (Call(LINEAR_TFLITE, params, (op.x,), op.y),)


def scratch_linear_tflite(op: Linear) -> int:
    """Returns the scratch bytes of the kernel with single rounding: the sums, and one widened row of inputs."""
    return 4 * op.out_features + pack.group_channels(unscaled(channels_of(op))).row_bytes


KERNELS: tuple[Kernel, ...] = (
    DSP.kernel(Linear, calls_linear, check_linear, name="linear", scratch_bytes=scratch_linear),
    DSP.kernel(
        Linear,
        calls_linear_tflite,
        single_rounding.check,
        name="linear_tflite",
        scratch_bytes=scratch_linear_tflite,
    ),
)
