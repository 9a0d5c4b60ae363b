# SPDX-License-Identifier: Apache-2.0
"""The DSP kernels of fully connected layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from pillion.emitters.c import single_rounding
from pillion.emitters.c.accumulators import channels_meet, channels_of
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


def row_count(op: Conv2d | Linear) -> int:
    """Returns the vectors of a layer; a convolution's vectors are its pixels."""
    return op.rows if isinstance(op, Linear) else math.prod(op.y.shape[:3])


@dataclass(frozen=True)
class FullyConnected:
    """How the kernels of fully connected layers lay out weights of some bits."""

    pack: Callable[[ScaledChannels], Params]
    """Returns the stream of the channels, and their groups."""
    row_bytes: Callable[[ScaledChannels], int]
    """Returns the scratch bytes of a widened row of inputs, and of the jumps of the loop over it."""

    def params(self, op: Conv2d | Linear) -> Params:
        """Returns the parameters of the kernel for a layer, or for a convolution whose pixels are rows."""
        channels = channels_of(op)
        scaled = scale_channels(channels)
        shared = self._shared(scaled, row_count(op))
        rights = pack.remaining_right_shifts(scaled, int(shared["rest"]))
        return {**shared, "rectified": int(channels.is_rectified), "rest_rights": rights}

    def scratch_bytes(self, op: Conv2d | Linear) -> int:
        """Returns the scratch bytes of the kernel."""
        return self.row_bytes(scale_channels(channels_of(op)))

    def params_once(self, op: Linear) -> Params:
        """Returns the parameters of the kernel with single rounding."""
        shared = self._shared(unscaled_channels(channels_of(op)), op.rows)
        return {**shared, "once": single_rounding.packed_numbers(op)}

    def scratch_bytes_once(self, op: Linear) -> int:
        """Returns the scratch bytes of the kernel with single rounding, which keeps the sums, too."""
        return 4 * op.out_features + self.row_bytes(unscaled_channels(channels_of(op)))

    def _shared(self, scaled: ScaledChannels, rows: int) -> Params:
        out_features, in_features = scaled.weights.shape
        sizes = {"rows": rows, "in_features": in_features, "out_features": out_features}
        return {**self.pack(scaled), **sizes}


OF_BYTES = FullyConnected(pack.pack_linear, lambda scaled: pack.group_channels(scaled).row_bytes)

KERNELS: tuple[Kernel, ...] = (
    DSP.kernel(
        Linear,
        LINEAR,
        OF_BYTES.params,
        requires=(fixed_point, DOT),
        scratch_bytes=OF_BYTES.scratch_bytes,
    ),
    DSP.kernel(
        Linear,
        LINEAR_TFLITE,
        OF_BYTES.params_once,
        requires=(single_rounding.EXACT,),
        scratch_bytes=OF_BYTES.scratch_bytes_once,
    ),
)
