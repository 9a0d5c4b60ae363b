# SPDX-License-Identifier: Apache-2.0
"""The Helium kernel of means and sums over neighbouring axes."""

from __future__ import annotations

from pillion.emitters.c.blocks import (
    Summed,
    judge,
    judge_part,
    judge_right,
    judge_rounding,
    multiplier,
    rows_taken,
    sizes,
)
from pillion.emitters.c.conditions import int8
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.library import MVE
from pillion.emitters.c.mve.elementwise import OVERREAD_BYTES, fix
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.pool import SUM_BYTES, Mean
from pillion.ops.reduce import ReduceSum


def takes(op: Summed, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether axes, sums and shift of a mean or sum are such that the kernel is exact."""
    known = judge(op, arithmetic, 2**31)
    return (*known, judge_right(-multiplier(op, arithmetic).shift, 0, 31)) if all_ok(known) else known


def calls(op: Summed, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the kernel of means and sums."""
    m = multiplier(op, arithmetic)
    numbers = {"multiplier": m.mantissa, "shift": m.shift, "fix": fix(m.shift)}
    params: Params = {**sizes(op), **numbers, "out_zp": op.y.zero_point}
    return (Call(MVE.routine("reduce_sum_s8"), params, (op.x,), op.y),)


LANES = 16
"""Sums that are added to at once."""


def takes_part(op: Summed, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether the rounding and the shift are those that the kernel for some rows has."""
    right = judge_right(-multiplier(op, arithmetic).shift, 0, 31)
    return (judge_part(op), *judge_rounding(op, arithmetic), *int8(x=op.x, y=op.y), right)


def part(op: Summed, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call that adds some rows to the sums."""
    params: Params = {**rows_taken(op, arithmetic), "fix": fix(multiplier(op, arithmetic).shift)}
    return (Call(MVE.routine("mean_rows_s8"), params, (op.x,), op.y),)


def sums_of(op: Summed) -> int:
    """Gives the bytes of the sums, of which there are more than results where these are no whole vectors."""
    return SUM_BYTES * LANES * -(-op.folded_bytes // (SUM_BYTES * LANES))


def row_of_parts(op: type[Mean] | type[ReduceSum]) -> Kernel:
    """Makes the row of the table for some rows of a mean or sum."""
    return MVE.row(
        op,
        part,
        takes_part,
        name=f"{op.kind}_rows",
        scratch_bytes=sums_of,
        overread_bytes=OVERREAD_BYTES,
        is_for_parts=True,
    )


KERNELS: tuple[Kernel, ...] = (
    row_of_parts(Mean),
    row_of_parts(ReduceSum),
    MVE.row(Mean, calls, takes, overread_bytes=OVERREAD_BYTES),
    MVE.row(ReduceSum, calls, takes, overread_bytes=OVERREAD_BYTES),
)
