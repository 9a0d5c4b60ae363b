# SPDX-License-Identifier: Apache-2.0
"""The Helium kernel of matrix products of two tensors."""

from __future__ import annotations

from pillion.emitters.c.conditions import int8
from pillion.emitters.c.held_vectors import Side, held_and_moving, operands, sides, walk
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.library import MVE
from pillion.emitters.c.mve.elementwise import OVERREAD_BYTES
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.matmul import BatchMatmul

FURTHEST_LANE = 7
"""Elements are gathered by eights, with offsets of 16 bits."""


def pieces(depth: int) -> int:
    """Counts the vectors of 16 elements to which such a depth is filled up."""
    return -(-depth // 16)


def cost(held: Side, moving: Side, depth: int) -> int:
    """Estimates the instructions when one operand is held in scratch and the other moves along it."""
    eights, copied = -(-depth // 8), moving.element_step != 1
    pair = 37 if pieces(depth) == 1 else 39 + 16 * pieces(depth)
    each_moving = 30 + (7 * eights if copied else 3 * pieces(depth))
    return (
        held.count * (40 + 7 * eights)
        + moving.count * each_moving
        + -(-moving.count // 4) * (110 + -(-held.count // 2) * pair)
    )


def calls(op: BatchMatmul, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the matrix product."""
    m = op.multiplier(arithmetic)
    params: Params = {
        **walk(op, cost),
        **{"multiplier": m.mantissa, "shift": m.shift},
        **{"out_zp": op.y.zero_point, "low": op.low, "high": op.high},
    }
    return (Call(MVE.routine("batch_matmul_s8"), params, operands(op, cost), op.y),)


def takes(op: BatchMatmul, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether steps and shift of a matrix product are such that the kernel can gather and is exact."""
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
    """Gives the scratch: pairs of held vectors with their biases, four times each, and four moving ones that are copied."""
    held, moving = held_and_moving(op, cost)
    vector = 16 * pieces(op.depth)
    return -(-held.count // 2) * (32 + 2 * vector) + (4 * vector if moving.element_step != 1 else 0)


KERNELS: tuple[Kernel, ...] = (
    MVE.row(BatchMatmul, calls, takes, scratch_bytes=scratch_bytes, overread_bytes=OVERREAD_BYTES),
)
