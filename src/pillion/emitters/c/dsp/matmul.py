# SPDX-License-Identifier: Apache-2.0
"""The DSP kernel of matrix products of two tensors."""

from __future__ import annotations

from pillion.emitters.c.channel_scaling import MOST_SHIFT, SUM_LIMIT, rounding
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.kernel_conditions import int8
from pillion.emitters.c.kernel_library import DSP
from pillion.emitters.c.matmul_walk import MatmulSide, held_and_moving, in_fours, operands, walk_params
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.matmul import BatchMatmul

MATMUL = DSP.routine("batch_matmul_s8", "clamp")


OVERREAD_BYTES = 7
"""Moving vectors are read in eights; elements behind the end meet held zeros."""


def cost(held: MatmulSide, moving: MatmulSide, depth: int) -> int:
    """Estimates the instructions if one operand is held in scratch and the other streams past it."""
    eights = -(-depth // 8)
    each_moving = 50 + (10 if moving.element_step == 1 else 24) * eights
    group = (29 if held.y_step == 1 else 33) + 23 * eights
    return held.count * (45 + 38 * eights) + moving.count * (each_moving + in_fours(held) * group)


def calls(op: BatchMatmul, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of the matrix product."""
    m = op.multiplier(arithmetic)
    params: Params = {
        **walk_params(op, cost),
        "multiplier": m.mantissa,
        "round": rounding(op.y.zero_point, -m.shift),
        **{"right": -m.shift, "low": op.low, "high": op.high},
    }
    return (Call(MATMUL, params, operands(op, cost), op.y),)


def check(op: BatchMatmul, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether sums and right shift are within the kernel's limits."""
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
    """Returns the scratch bytes: held vectors with their initial accumulators, and one moving vector, 16 bits for
    each element, in eights."""
    held, _ = held_and_moving(op, cost)
    eights = -(-op.depth // 8)
    return in_fours(held) * (16 + 64 * eights) + 16 * eights


KERNELS: tuple[Kernel, ...] = (
    DSP.kernel(BatchMatmul, calls, check, scratch_bytes=scratch_bytes, overread_bytes=OVERREAD_BYTES),
)
