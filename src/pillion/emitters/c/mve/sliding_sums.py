# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of means and average pools over a sliding window."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pillion.emitters.c.accumulators import Int32Array
from pillion.emitters.c.kernel import Call, Params
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.mve.elementwise import OVERREAD_BYTES, sign_correction
from pillion.emitters.c.mve.reduce import LANES
from pillion.emitters.c.portable import sliding_sums as portable
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


def call_mean(sums: SlidingSums, arithmetic: Arithmetic) -> Call:
    """Returns the call of a mean or a sum."""
    op = sums.op
    assert isinstance(op, Mean | ReduceSum)
    m = multiplier(op, arithmetic)
    numbers = {"multiplier": m.mantissa, "shift": m.shift, "fix": sign_correction(m.shift)}
    params: Params = {**sums.sizes, **numbers, "out_zp": op.y.zero_point}
    return Call(MVE.routine("window_mean_s8"), params, (op.x,), op.y)


def check_window_mean(sums: SlidingSums, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether the right shift of a mean or sum is within the kernel's limits."""
    op = sums.op
    verdicts = check_kind(op, Mean, ReduceSum)
    if not isinstance(op, Mean | ReduceSum):
        return verdicts
    known = (*verdicts, *check_sums(op, arithmetic))
    return (*known, check_right_shift(-multiplier(op, arithmetic).shift, 0, 31)) if all_ok(known) else known


def stored(sums: SlidingSums) -> Int32Array:
    """Returns the initial sums without the window's zero points, in the kernel's layout."""
    return in_vectors(less_zero_points(sums))


def in_vectors(sums: Int32Array) -> Int32Array:
    """Returns sums in complete vectors, the even ones of each eight first."""
    filled = np.pad(sums, (0, -len(sums) % LANES), mode="edge").reshape(-1, LANES // 4, 2)
    return np.ascontiguousarray(filled.transpose(0, 2, 1).reshape(-1), np.int32)


MOST_PIXELS = 4096
"""The largest window for which the reciprocal was verified for all sums."""


def call_pool(sums: SlidingSums, arithmetic: Arithmetic) -> Call:
    """Returns the call of an average pool."""
    call = portable.call_pool(sums, arithmetic)
    return replace(call, routine=MVE.routine("window_pool_s8"))


def check_window_pool(sums: SlidingSums, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks the portable kernel's conditions, and whether the reciprocal is exact for the window."""
    fits = Verdict("window", sums.window <= MOST_PIXELS, f"at most {MOST_PIXELS}", str(sums.window))
    return (*portable.check_window_pool(sums, arithmetic), fits)


WINDOWS: tuple[WindowKernel, ...] = (
    WindowKernel("window_mean_mve", call_mean, check_window_mean, stored, OVERREAD_BYTES),
    WindowKernel(
        "window_pool_mve", call_pool, check_window_pool, lambda sums: in_vectors(sums.initial), OVERREAD_BYTES
    ),
)
