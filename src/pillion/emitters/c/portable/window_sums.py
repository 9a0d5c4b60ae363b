# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of means and average pools over a window that moves."""

from __future__ import annotations

from pillion.emitters.c.blocks import multiplier
from pillion.emitters.c.conditions import int8
from pillion.emitters.c.kernel import Call, Params, scaling
from pillion.emitters.c.library import PORTABLE
from pillion.emitters.c.portable.pool import judge_pool
from pillion.emitters.c.window_sums import WindowKernel, WindowSums, judge_kind, judge_sums
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict
from pillion.ops.pool import AvgPool2d, AvgPool2dUp, Mean
from pillion.ops.reduce import ReduceSum


def mean(sums: WindowSums, arithmetic: Arithmetic) -> Call:
    """Gives the call of a mean or a sum."""
    op = sums.op
    assert isinstance(op, Mean | ReduceSum)
    params: Params = {
        **sums.sizes,
        "offset": sums.window * op.x.zero_point,
        **scaling(multiplier(op, arithmetic)),
        "out_zp": op.y.zero_point,
    }
    return Call(PORTABLE.routine("window_mean_s8"), params, (op.x,), op.y)


def takes_mean(sums: WindowSums, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges means, and sums in the arithmetic whose multipliers the kernel has."""
    op = sums.op
    verdicts = judge_kind(op, Mean, ReduceSum)
    return (*verdicts, *judge_sums(op, arithmetic)) if isinstance(op, Mean | ReduceSum) else verdicts


def pool(sums: WindowSums, arithmetic: Arithmetic) -> Call:
    """Gives the call of an average pool."""
    op = sums.op
    assert isinstance(op, AvgPool2d | AvgPool2dUp)
    params: Params = {**sums.sizes, "low": op.low, "high": op.high}
    return Call(PORTABLE.routine("window_pool_s8"), params, (op.x,), op.y)


def takes_pool(sums: WindowSums, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether an average pool goes from int8 to int8, and rounds half away from zero."""
    op = sums.op
    verdicts = judge_kind(op, AvgPool2d, AvgPool2dUp)
    if not isinstance(op, AvgPool2d | AvgPool2dUp):
        return verdicts
    is_up = isinstance(op, AvgPool2dUp) and arithmetic.is_tflite
    rounding = Verdict("rounding", not is_up, "half away from zero", "half up")
    return (*verdicts, *int8(x=op.x, y=op.y), *judge_pool(op, arithmetic), rounding)


WINDOWS: tuple[WindowKernel, ...] = (
    WindowKernel("window_mean", mean, takes_mean),
    WindowKernel("window_pool", pool, takes_pool),
)
