# SPDX-License-Identifier: Apache-2.0
"""The DSP kernel of matrix products of two tensors."""

from __future__ import annotations

from pillion.emitters.c.conditions import int8
from pillion.emitters.c.held_vectors import Side, held_and_moving, in_fours, operands, walk
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.library import DSP
from pillion.emitters.c.rescaled import MOST_SHIFT, SUM_LIMIT, rounding
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.matmul import BatchMatmul

MATMUL = DSP.routine("batch_matmul_s8", "clamp")
ROUTINES = (MATMUL,)


OVERREAD_BYTES = 7
"""Moving vectors are read eight elements at a time; those behind meet held ones of zero."""


def cost(held: Side, moving: Side, depth: int) -> int:
    """Estimates the instructions when one operand is held in scratch and the other moves along it."""
    eights = -(-depth // 8)
    each_moving = 50 + (10 if moving.element_step == 1 else 24) * eights
    group = (29 if held.y_step == 1 else 33) + 23 * eights
    return held.count * (45 + 38 * eights) + moving.count * (each_moving + in_fours(held) * group)


def calls(op: BatchMatmul, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the matrix product."""
    m = op.multiplier(arithmetic)
    params: Params = {
        **walk(op, cost),
        "multiplier": m.mantissa,
        "round": rounding(op.y.zero_point, -m.shift),
        **{"right": -m.shift, "low": op.low, "high": op.high},
    }
    return (Call(MATMUL, params, operands(op, cost), op.y),)


def takes(op: BatchMatmul, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether sums and shift of a matrix product are such that the kernel is exact."""
    known = int8(a=op.a, b=op.b, y=op.y)
    if not all_ok(known):
        return known
    right, limit = -op.multiplier(arithmetic).shift, SUM_LIMIT
    return (
        *known,
        Verdict("sum", op.largest_sum < limit, f"below {limit}", f"up to {op.largest_sum}"),
        Verdict("right_shift", 1 <= right <= MOST_SHIFT, f"1 to {MOST_SHIFT}", str(right)),
    )


def scratch_bytes(op: BatchMatmul) -> int:
    """Gives the scratch: held vectors with what their sums begin with, and the moving one, 16 bits to an element, in eights."""
    held, _ = held_and_moving(op, cost)
    eights = -(-op.depth // 8)
    return in_fours(held) * (16 + 64 * eights) + 16 * eights


KERNELS: tuple[Kernel, ...] = (
    DSP.row(BatchMatmul, calls, takes, scratch_bytes=scratch_bytes, overread_bytes=OVERREAD_BYTES),
)
