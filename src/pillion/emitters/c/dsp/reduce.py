# SPDX-License-Identifier: Apache-2.0
"""The DSP kernel of means and sums over neighbouring axes."""

from __future__ import annotations

from pillion.emitters.c.blocks import Summed, judge, judge_right, multiplier, sizes
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.library import DSP
from pillion.emitters.c.rescaled import MOST_SHIFT, SUM_LIMIT, rounding
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.pool import Mean
from pillion.ops.reduce import ReduceSum

SUM = DSP.routine("reduce_sum_s8")
ROUTINES = (SUM,)


def takes(op: Summed, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether axes, sums and shift of a mean or sum are such that the kernel is exact."""
    known = judge(op, arithmetic, SUM_LIMIT)
    if not all_ok(known):
        return known
    inner = sizes(op)["inner"]
    return (
        *known,
        Verdict("inner", inner not in (2, 3), "results one by one, or 4 neighbours and more", str(inner)),
        judge_right(-multiplier(op, arithmetic).shift, 1, MOST_SHIFT),
    )


def calls(op: Summed, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the kernel of means and sums."""
    m = multiplier(op, arithmetic)
    half = rounding(op.y.zero_point, -m.shift)
    params: Params = {**sizes(op), "multiplier": m.mantissa, "round": half, "right": -m.shift}
    return (Call(SUM, params, (op.x,), op.y),)


KERNELS: tuple[Kernel, ...] = (DSP.row(Mean, calls, takes), DSP.row(ReduceSum, calls, takes))
