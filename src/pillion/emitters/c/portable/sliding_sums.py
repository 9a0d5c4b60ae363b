# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of means and average pools over a sliding window."""

from __future__ import annotations

from pillion.emitters.c.kernel import Params, multiplier_params
from pillion.emitters.c.kernel_conditions import INT8_XY, all_of
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.emitters.c.reduction_blocks import MEANS, MeanOrSum, multiplier, sums_below
from pillion.emitters.c.sliding_sums import WindowKernel
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict
from pillion.ops.pool import AvgPool2d, AvgPool2dUp


def mean_params(op: MeanOrSum, arithmetic: Arithmetic) -> Params:
    """Returns the parameters of a mean or a sum."""
    return {"offset": op.count * op.x.zero_point, **multiplier_params(multiplier(op, arithmetic))}


def rounds_away(op: AvgPool2d | AvgPool2dUp, arithmetic: Arithmetic) -> Verdict:
    """Checks whether an average pool rounds half away from zero."""
    is_up = isinstance(op, AvgPool2dUp) and arithmetic.is_tflite
    return Verdict("rounding", not is_up, "half away from zero", "half up")


POOLS = (AvgPool2d, AvgPool2dUp)
POOL = all_of(INT8_XY, rounds_away)
WINDOWS: tuple[WindowKernel, ...] = (
    WindowKernel("window_mean", MEANS, PORTABLE.routine("window_mean_s8"), mean_params, sums_below(2**31)),
    WindowKernel("window_pool", POOLS, PORTABLE.routine("window_pool_s8"), lambda op, arithmetic: {}, POOL),
)
