# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of means and average pools over a window that moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pillion.emitters.c.accumulators import Int32Array
from pillion.emitters.c.blocks import judge_right, multiplier
from pillion.emitters.c.kernel import Call, Params
from pillion.emitters.c.library import MVE
from pillion.emitters.c.mve.elementwise import OVERREAD_BYTES, fix
from pillion.emitters.c.mve.reduce import LANES
from pillion.emitters.c.portable import window_sums as portable
from pillion.emitters.c.window_sums import WindowKernel, WindowSums, judge_kind, judge_sums, less_zero_points
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.pool import Mean
from pillion.ops.reduce import ReduceSum


def mean(sums: WindowSums, arithmetic: Arithmetic) -> Call:
    """Gives the call of a mean or a sum."""
    op = sums.op
    assert isinstance(op, Mean | ReduceSum)
    m = multiplier(op, arithmetic)
    numbers = {"multiplier": m.mantissa, "shift": m.shift, "fix": fix(m.shift)}
    params: Params = {**sums.sizes, **numbers, "out_zp": op.y.zero_point}
    return Call(MVE.routine("window_mean_s8"), params, (op.x,), op.y)


def takes_mean(sums: WindowSums, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether the shift of a mean or sum is one that the kernel has."""
    op = sums.op
    verdicts = judge_kind(op, Mean, ReduceSum)
    if not isinstance(op, Mean | ReduceSum):
        return verdicts
    known = (*verdicts, *judge_sums(op, arithmetic))
    return (*known, judge_right(-multiplier(op, arithmetic).shift, 0, 31)) if all_ok(known) else known


def stored(sums: WindowSums) -> Int32Array:
    """Gives sums as they lie in memory, without the zero points of the window: whole vectors, of each eight neighbours the even ones first."""
    return in_vectors(less_zero_points(sums))


def in_vectors(sums: Int32Array) -> Int32Array:
    """Gives sums in whole vectors, of each eight neighbours the even ones first."""
    filled = np.pad(sums, (0, -len(sums) % LANES), mode="edge").reshape(-1, LANES // 4, 2)
    return np.ascontiguousarray(filled.transpose(0, 2, 1).reshape(-1), np.int32)


MOST_PIXELS = 4096
"""The largest window of which all sums have been tried."""


def pool(sums: WindowSums, arithmetic: Arithmetic) -> Call:
    """Gives the call of an average pool."""
    call = portable.pool(sums, arithmetic)
    return replace(call, routine=MVE.routine("window_pool_s8"))


def takes_pool(sums: WindowSums, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges what the portable kernel asks for, and whether the window is one that the reciprocal is exact for."""
    fits = Verdict("window", sums.window <= MOST_PIXELS, f"at most {MOST_PIXELS}", str(sums.window))
    return (*portable.takes_pool(sums, arithmetic), fits)


WINDOWS: tuple[WindowKernel, ...] = (
    WindowKernel("window_mean_mve", mean, takes_mean, stored, OVERREAD_BYTES),
    WindowKernel("window_pool_mve", pool, takes_pool, lambda sums: in_vectors(sums.initial), OVERREAD_BYTES),
)
