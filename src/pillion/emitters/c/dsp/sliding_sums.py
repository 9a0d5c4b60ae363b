# SPDX-License-Identifier: Apache-2.0
"""The DSP kernel of means over a sliding window."""

from __future__ import annotations

from pillion.emitters.c.channel_scaling import MOST_SHIFT, SUM_LIMIT
from pillion.emitters.c.kernel_conditions import short_circuit
from pillion.emitters.c.kernel_library import DSP
from pillion.emitters.c.reduction_blocks import MEANS, shifted_right, sums_below
from pillion.emitters.c.sliding_sums import WindowKernel, reset_sums_without_zero_points

MOST_ENTERING = 255
"""The largest number of int8 elements whose sum fits 16 bits."""

WINDOWS: tuple[WindowKernel, ...] = (
    WindowKernel(
        "window_mean_dsp",
        MEANS,
        DSP.routine("window_mean_s8"),
        short_circuit(sums_below(SUM_LIMIT), shifted_right(1, MOST_SHIFT)),
        lambda sums: sums.inner % 4 == 0 and sums.entering <= MOST_ENTERING,
        stored=reset_sums_without_zero_points,
    ),
)
