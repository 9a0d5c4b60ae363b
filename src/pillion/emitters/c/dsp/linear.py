# SPDX-License-Identifier: Apache-2.0
"""The DSP kernels of fully connected layers."""

from __future__ import annotations

from dataclasses import replace

from pillion.emitters.c import single_rounding
from pillion.emitters.c.accumulators import OutputChannels, channels_meet, channels_of
from pillion.emitters.c.channel_scaling import ScaledChannels, scale_channels, unscaled_channels
from pillion.emitters.c.dsp import pack
from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import fixed_point
from pillion.emitters.c.kernel_library import DSP
from pillion.ops.conv import Conv2d
from pillion.ops.linear import Linear

LINEAR = DSP.routine("linear_s8", "clamp")
LINEAR_TFLITE = replace(LINEAR, name="pillion_linear_tflite_s8_dsp")
DOT = channels_meet(pack.dot_verdicts)
"""A layer is computed exactly by dot products of complete windows."""


def linear_params(channels: OutputChannels, rows: int) -> Params:
    """Returns the parameters of the fully connected kernel."""
    scaled = scale_channels(channels)
    rights = pack.remaining_right_shifts(scaled, pack.group_channels(scaled).rest)
    own = {"rectified": int(channels.is_rectified), "rest_rights": rights}
    return {**layer_params(scaled, rows), **own}


def layer_params(scaled: ScaledChannels, rows: int) -> Params:
    """Returns the parameters that both fully connected kernels share."""
    out_features, in_features = scaled.weights.shape
    sizes = {"rows": rows, "in_features": in_features, "out_features": out_features}
    return {**pack.pack_linear(scaled), **sizes}


def scratch_linear(op: Conv2d | Linear) -> int:
    """Returns the scratch bytes of the fully connected kernel: one widened row of inputs."""
    return pack.group_channels(scale_channels(channels_of(op))).row_bytes


def tflite_params(op: Linear) -> Params:
    """Returns the parameters of the fully connected kernel with single rounding."""
    shared = layer_params(unscaled_channels(channels_of(op)), op.rows)
    return {**shared, "once": single_rounding.packed_numbers(op)}


def scratch_linear_tflite(op: Linear) -> int:
    """Returns the scratch bytes of the kernel with single rounding: the sums, and one widened row of inputs."""
    return 4 * op.out_features + pack.group_channels(unscaled_channels(channels_of(op))).row_bytes


KERNELS: tuple[Kernel, ...] = (
    DSP.kernel(
        Linear,
        LINEAR,
        lambda op: linear_params(channels_of(op), op.rows),
        requires=(fixed_point, DOT),
        scratch_bytes=scratch_linear,
    ),
    DSP.kernel(
        Linear,
        LINEAR_TFLITE,
        tflite_params,
        requires=(single_rounding.EXACT,),
        scratch_bytes=scratch_linear_tflite,
    ),
)
