# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of means and average pools over a sliding window."""

from __future__ import annotations

from pillion.emitters.c.kernel import Params
from pillion.emitters.c.kernel_conditions import INT8_XY, all_of
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.emitters.c.reduction_blocks import MEANS, MeanOrSum, sums_below
from pillion.emitters.c.sliding_sums import WindowKernel
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict
from pillion.ops.pool import AvgPool2d, AvgPool2dUp


def mean_offset(op: MeanOrSum) -> Params:
    """Returns the sum of the zero points of a mean or a sum as parameters."""
    return {"offset": op.count * op.x.zero_point}


def rounds_away(op: AvgPool2d | AvgPool2dUp, arithmetic: Arithmetic) -> Verdict:
    """Checks whether an average pool rounds half away from zero."""
    is_up = isinstance(op, AvgPool2dUp) and arithmetic.is_tflite
    return Verdict("rounding", not is_up, "half away from zero", "half up")


POOLS = (AvgPool2d, AvgPool2dUp)
POOL = all_of(INT8_XY, rounds_away)
WINDOWS: tuple[WindowKernel, ...] = (
    WindowKernel(
        "window_mean", MEANS, PORTABLE.routine("window_mean_s8"), sums_below(2**31), params=mean_offset
    ),
    WindowKernel("window_pool", POOLS, PORTABLE.routine("window_pool_s8"), POOL),
)
