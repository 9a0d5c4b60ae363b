# SPDX-License-Identifier: Apache-2.0
"""The DSP kernel of means over a sliding window."""

from __future__ import annotations

from pillion.emitters.c.channel_scaling import MOST_SHIFT, SUM_LIMIT, rounding
from pillion.emitters.c.kernel import Call, Params
from pillion.emitters.c.kernel_library import DSP
from pillion.emitters.c.reduction_blocks import check_right_shift, multiplier
from pillion.emitters.c.sliding_sums import (
    SlidingSums,
    WindowKernel,
    check_kind,
    check_sums,
    less_zero_points,
)
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.reduce import Mean, ReduceSum

MOST_ENTERING = 255
"""The largest number of int8 elements whose sum fits 16 bits."""


def call_mean(sums: SlidingSums, arithmetic: Arithmetic) -> Call:
    """Returns the call of a mean or a sum."""
    op = sums.op
    assert isinstance(op, Mean | ReduceSum)
    m = multiplier(op, arithmetic)
    half = rounding(op.y.zero_point, -m.shift)
    numbers = {"multiplier": m.mantissa, "round": half, "right": -m.shift}
    params: Params = {**sums.sizes, **numbers}
    return Call(DSP.routine("window_mean_s8"), params, (op.x,), op.y)


def check_window_mean(sums: SlidingSums, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether sums and right shift are within the kernel's limits."""
    op = sums.op
    verdicts = check_kind(op, Mean, ReduceSum)
    if not isinstance(op, Mean | ReduceSum):
        return verdicts
    known = (*verdicts, *check_sums(op, arithmetic, SUM_LIMIT))
    fours = Verdict("inner", sums.inner % 4 == 0, "a multiple of 4", str(sums.inner))
    rows = Verdict("entering", sums.entering <= MOST_ENTERING, f"at most {MOST_ENTERING}", str(sums.entering))
    shift = (check_right_shift(-multiplier(op, arithmetic).shift, 1, MOST_SHIFT),) if all_ok(known) else ()
    return (*known, fours, rows, *shift)


WINDOWS: tuple[WindowKernel, ...] = (
    WindowKernel("window_mean_dsp", call_mean, check_window_mean, less_zero_points),
)
