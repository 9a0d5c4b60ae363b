# SPDX-License-Identifier: Apache-2.0
"""The Helium kernel of matrix products of two tensors."""

from __future__ import annotations

from pillion.emitters.c.conditions import int8
from pillion.emitters.c.held_vectors import Side, held_and_moving, in_fours, operands, sides, walk
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.library import MVE
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.matmul import BatchMatmul

FURTHEST_LANE = 7
"""Elements are gathered by eights, with offsets of 16 bits."""


def cost(held: Side, moving: Side, depth: int) -> int:
    """Estimates the cycles when one operand is held in scratch and the other moves along it."""
    pieces, eights = -(-depth // 16), -(-depth // 8)
    return (held.count + moving.count) * (20 + 5 * eights) + moving.count * in_fours(held) * (
        25 + 10 * pieces
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
    """Gives the scratch: for each held vector its bias and its elements in whole vectors, then the moving one."""
    held, _ = held_and_moving(op, cost)
    bytes_of_vector = 16 * -(-op.depth // 16)
    return 4 * in_fours(held) * (4 + bytes_of_vector) + bytes_of_vector


KERNELS: tuple[Kernel, ...] = (MVE.row(BatchMatmul, calls, takes, scratch_bytes=scratch_bytes),)
