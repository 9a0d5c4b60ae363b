# SPDX-License-Identifier: Apache-2.0
"""The DSP kernels of means, sums and extrema over adjacent axes."""

from __future__ import annotations

from pillion.emitters.c import extremes
from pillion.emitters.c.channel_scaling import MOST_SHIFT, SUM_LIMIT, rounding
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.kernel_library import DSP
from pillion.emitters.c.reduction_blocks import (
    MeanOrSum,
    block_sizes,
    check_block,
    check_right_shift,
    multiplier,
)
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.reduce import Mean, ReduceSum

SUM = DSP.routine("reduce_sum_s8")


def check(op: MeanOrSum, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether axes, sums and right shift are within the kernel's limits."""
    known = check_block(op, arithmetic, SUM_LIMIT)
    if not all_ok(known):
        return known
    inner = block_sizes(op)["inner"]
    return (
        *known,
        Verdict("inner", inner not in (2, 3), "results one by one, or 4 neighbours and more", str(inner)),
        check_right_shift(-multiplier(op, arithmetic).shift, 1, MOST_SHIFT),
    )


def calls(op: MeanOrSum, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of the kernel."""
    m = multiplier(op, arithmetic)
    half = rounding(op.y.zero_point, -m.shift)
    params: Params = {**block_sizes(op), "multiplier": m.mantissa, "round": half, "right": -m.shift}
    return (Call(SUM, params, (op.x,), op.y),)


KERNELS: tuple[Kernel, ...] = (
    DSP.kernel(Mean, calls, check),
    DSP.kernel(ReduceSum, calls, check),
    *extremes.kernels(DSP),
)
