# SPDX-License-Identifier: Apache-2.0
"""The Helium kernel of matrix products of two tensors."""

from __future__ import annotations

from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.kernel_conditions import int8
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.matmul_walk import MatmulSide, held_and_moving, operands, sides, walk_params
from pillion.emitters.c.mve.elementwise import OVERREAD_BYTES
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.matmul import BatchMatmul

FURTHEST_LANE = 7
"""Elements are gathered in eights with 16-bit offsets."""


def pieces(depth: int) -> int:
    """Returns the number of vectors of 16 elements that hold `depth` elements."""
    return -(-depth // 16)


def cost(held: MatmulSide, moving: MatmulSide, depth: int) -> int:
    """Estimates the instructions if one operand is held in scratch and the other streams past it."""
    eights, copied = -(-depth // 8), moving.element_step != 1
    pair = 37 if pieces(depth) == 1 else 39 + 16 * pieces(depth)
    each_moving = 30 + (7 * eights if copied else 3 * pieces(depth))
    return (
        held.count * (40 + 7 * eights)
        + moving.count * each_moving
        + -(-moving.count // 4) * (110 + -(-held.count // 2) * pair)
    )


def calls(op: BatchMatmul, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of the matrix product."""
    m = op.multiplier(arithmetic)
    params: Params = {
        **walk_params(op, cost),
        **{"multiplier": m.mantissa, "shift": m.shift},
        **{"out_zp": op.y.zero_point, "low": op.low, "high": op.high},
    }
    return (Call(MVE.routine("batch_matmul_s8"), params, operands(op, cost), op.y),)


def check(op: BatchMatmul, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether steps and right shift are within the kernel's limits."""
    known = int8(a=op.a, b=op.b, y=op.y)
    if not all_ok(known):
        return known
    furthest = FURTHEST_LANE * max(side.element_step for side in sides(op))
    right = -op.multiplier(arithmetic).shift
    return (
        *known,
        Verdict("step", furthest < 2**16, f"{FURTHEST_LANE} of them below {2**16}", str(furthest)),
        Verdict("right_shift", 1 <= right <= 31, "1 to 31", str(right)),
    )


def scratch_bytes(op: BatchMatmul) -> int:
    """Returns the scratch bytes: pairs of held vectors with their biases, repeated four times, and four moving
    vectors if these are copied."""
    held, moving = held_and_moving(op, cost)
    vector = 16 * pieces(op.depth)
    return -(-held.count // 2) * (32 + 2 * vector) + (4 * vector if moving.element_step != 1 else 0)


KERNELS: tuple[Kernel, ...] = (
    MVE.kernel(BatchMatmul, calls, check, scratch_bytes=scratch_bytes, overread_bytes=OVERREAD_BYTES),
)
