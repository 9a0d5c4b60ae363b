# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of means and average pools over a sliding window."""

from __future__ import annotations

from pillion.emitters.c.kernel import Call, Params, scaling
from pillion.emitters.c.kernel_conditions import int8
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.emitters.c.portable.pool import check_pool
from pillion.emitters.c.reduction_blocks import multiplier
from pillion.emitters.c.sliding_sums import SlidingSums, WindowKernel, check_kind, check_sums
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict
from pillion.ops.pool import AvgPool2d, AvgPool2dUp
from pillion.ops.reduce import Mean, ReduceSum


def call_mean(sums: SlidingSums, arithmetic: Arithmetic) -> Call:
    """Returns the call of a mean or a sum."""
    op = sums.op
    assert isinstance(op, Mean | ReduceSum)
    params: Params = {
        **sums.sizes,
        "offset": sums.window * op.x.zero_point,
        **scaling(multiplier(op, arithmetic)),
        "out_zp": op.y.zero_point,
    }
    return Call(PORTABLE.routine("window_mean_s8"), params, (op.x,), op.y)


def check_window_mean(sums: SlidingSums, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether the op is a mean or sum in the arithmetic of the kernel."""
    op = sums.op
    verdicts = check_kind(op, Mean, ReduceSum)
    return (*verdicts, *check_sums(op, arithmetic)) if isinstance(op, Mean | ReduceSum) else verdicts


def call_pool(sums: SlidingSums, arithmetic: Arithmetic) -> Call:
    """Returns the call of an average pool."""
    op = sums.op
    assert isinstance(op, AvgPool2d | AvgPool2dUp)
    params: Params = {**sums.sizes, "low": op.low, "high": op.high}
    return Call(PORTABLE.routine("window_pool_s8"), params, (op.x,), op.y)


def check_window_pool(sums: SlidingSums, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether an average pool maps int8 to int8 and rounds half away from zero."""
    op = sums.op
    verdicts = check_kind(op, AvgPool2d, AvgPool2dUp)
    if not isinstance(op, AvgPool2d | AvgPool2dUp):
        return verdicts
    is_up = isinstance(op, AvgPool2dUp) and arithmetic.is_tflite
    rounding = Verdict("rounding", not is_up, "half away from zero", "half up")
    return (*verdicts, *int8(x=op.x, y=op.y), *check_pool(op, arithmetic), rounding)


WINDOWS: tuple[WindowKernel, ...] = (
    WindowKernel("window_mean", call_mean, check_window_mean),
    WindowKernel("window_pool", call_pool, check_window_pool),
)
