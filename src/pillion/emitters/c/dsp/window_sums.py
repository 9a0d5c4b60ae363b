# SPDX-License-Identifier: Apache-2.0
"""The DSP kernel of means over a window that moves."""

from __future__ import annotations

from pillion.emitters.c.blocks import judge_right, multiplier
from pillion.emitters.c.kernel import Call, Params
from pillion.emitters.c.library import DSP
from pillion.emitters.c.rescaled import MOST_SHIFT, SUM_LIMIT, rounding
from pillion.emitters.c.window_sums import WindowKernel, WindowSums, judge_kind, judge_sums, less_zero_points
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.pool import Mean
from pillion.ops.reduce import ReduceSum

MOST_ENTERING = 255
"""Elements whose sums fit 16 bits, whatever their sign."""


def mean(sums: WindowSums, arithmetic: Arithmetic) -> Call:
    """Gives the call of a mean or a sum."""
    op = sums.op
    assert isinstance(op, Mean | ReduceSum)
    m = multiplier(op, arithmetic)
    half = rounding(op.y.zero_point, -m.shift)
    numbers = {"multiplier": m.mantissa, "round": half, "right": -m.shift}
    params: Params = {**sums.sizes, **numbers}
    return Call(DSP.routine("window_mean_s8"), params, (op.x,), op.y)


def takes_mean(sums: WindowSums, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether sums and shift of a mean or sum are such that the kernel is exact."""
    op = sums.op
    verdicts = judge_kind(op, Mean, ReduceSum)
    if not isinstance(op, Mean | ReduceSum):
        return verdicts
    known = (*verdicts, *judge_sums(op, arithmetic, SUM_LIMIT))
    fours = Verdict("inner", sums.inner % 4 == 0, "a multiple of 4", str(sums.inner))
    rows = Verdict("entering", sums.entering <= MOST_ENTERING, f"at most {MOST_ENTERING}", str(sums.entering))
    shift = (judge_right(-multiplier(op, arithmetic).shift, 1, MOST_SHIFT),) if all_ok(known) else ()
    return (*known, fours, rows, *shift)


WINDOWS: tuple[WindowKernel, ...] = (WindowKernel("window_mean_dsp", mean, takes_mean, less_zero_points),)
