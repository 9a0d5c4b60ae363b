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


def cost(held: Side, moving: Side, depth: int) -> int:
    """Estimates the cycles when one operand is held in scratch and the other moves along it."""
    copied = sum(side.count * (9 if side.element_step == 1 else 25) for side in (held, moving))
    eights = -(-depth // 8)
    return 2 * eights * copied + moving.count * in_fours(held) * (45 + 24 * eights)


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
    """Gives the scratch: held vectors and the moving one, 16 bits to an element, in eights."""
    held, _ = held_and_moving(op, cost)
    return 16 * -(-op.depth // 8) * (4 * in_fours(held) + 1)


KERNELS: tuple[Kernel, ...] = (DSP.row(BatchMatmul, calls, takes, scratch_bytes=scratch_bytes),)
