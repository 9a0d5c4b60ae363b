# SPDX-License-Identifier: Apache-2.0
"""Products of matrices by the Helium and the DSP kernel: both keep the vectors of one operand in scratch and move those of
the other along them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pillion.emitters.c.dsp import (
    pack as dsp_pack,
)
from pillion.emitters.c.dsp import (
    row as dsp_row,
)
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.mve import (
    elementwise as mve_elementwise,
)
from pillion.emitters.c.portable.walk import int8
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Value
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.matmul import BatchMatmul

FURTHEST_LANE = 7
"""Elements are gathered by eights, with offsets of 16 bits."""


@dataclass(frozen=True)
class Side:
    """The vectors of one operand, in each batch: how many, and how far from vector to vector, element to element, result to
    result."""

    value: Value
    count: int
    step: int
    element_step: int
    y_step: int


def sides(op: BatchMatmul) -> tuple[Side, Side]:
    """Rows of a, columns of b."""
    rows, depth, columns = op.rows, op.depth, op.columns
    row_step, a_step = (1, rows) if op.adj_x else (depth, 1)
    column_step, b_step = (depth, 1) if op.adj_y else (1, columns)
    return Side(op.a, rows, row_step, a_step, columns), Side(op.b, columns, column_step, b_step, 1)


Cost = Callable[[Side, Side, int], int]
"""Instructions, roughly, with these held and those moving, of vectors so long."""


def cost_mve(held: Side, moving: Side, depth: int) -> int:
    pieces, eights = -(-depth // 16), -(-depth // 8)
    return (held.count + moving.count) * (20 + 5 * eights) + moving.count * in_fours(held) * (
        25 + 10 * pieces
    )


def cost_dsp(held: Side, moving: Side, depth: int) -> int:
    copied = sum(side.count * (9 if side.element_step == 1 else 25) for side in (held, moving))
    eights = -(-depth // 8)
    return 2 * eights * copied + moving.count * in_fours(held) * (45 + 24 * eights)


def in_fours(held: Side) -> int:
    return -(-held.count // 4)


def held_and_moving(op: BatchMatmul, cost: Cost) -> tuple[Side, Side]:
    a, b = sides(op)
    return (a, b) if cost(a, b, op.depth) <= cost(b, a, op.depth) else (b, a)


def walk(op: BatchMatmul, cost: Cost) -> Params:
    held, moving = held_and_moving(op, cost)
    steps = {
        f"{name}_{field}": getattr(side, field)
        for name, side in (("held", held), ("moving", moving))
        for field in ("step", "element_step")
    }
    return {
        **{"batch": op.a.shape[0], "held": held.count, "moving": moving.count, "depth": op.depth},
        **steps,
        **{"y_held_step": held.y_step, "y_moving_step": moving.y_step},
        **{"held_zp": held.value.zero_point, "moving_zp": moving.value.zero_point},
    }


def operands(op: BatchMatmul, cost: Cost) -> tuple[Value, Value]:
    held, moving = held_and_moving(op, cost)
    return held.value, moving.value


def calls_mve(op: BatchMatmul, arithmetic: Arithmetic) -> tuple[Call, ...]:
    m = op.multiplier(arithmetic)
    params: Params = {
        **walk(op, cost_mve),
        **{"multiplier": m.mantissa, "shift": m.shift},
        **{"out_zp": op.y.zero_point, "low": op.low, "high": op.high},
    }
    return (Call(mve_elementwise.routine("batch_matmul_s8"), params, operands(op, cost_mve), op.y),)


def takes_mve(op: BatchMatmul, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
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


def scratch_mve(op: BatchMatmul) -> int:
    """Of each held vector its bias and its elements in whole vectors, then the moving one."""
    held, _ = held_and_moving(op, cost_mve)
    bytes_of_vector = 16 * -(-op.depth // 16)
    return 4 * in_fours(held) * (4 + bytes_of_vector) + bytes_of_vector


def calls_dsp(op: BatchMatmul, arithmetic: Arithmetic) -> tuple[Call, ...]:
    m = op.multiplier(arithmetic)
    params: Params = {
        **walk(op, cost_dsp),
        "multiplier": m.mantissa,
        "round": dsp_pack.rounding(op.y.zero_point, -m.shift),
        **{"right": -m.shift, "low": op.low, "high": op.high},
    }
    return (Call(DSP, params, operands(op, cost_dsp), op.y),)


def takes_dsp(op: BatchMatmul, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    known = int8(a=op.a, b=op.b, y=op.y)
    if not all_ok(known):
        return known
    right, limit = -op.multiplier(arithmetic).shift, dsp_pack.SUM_LIMIT
    return (
        *known,
        Verdict("sum", op.largest_sum < limit, f"below {limit}", f"up to {op.largest_sum}"),
        Verdict("right_shift", 1 <= right <= dsp_pack.MOST_SHIFT, f"1 to {dsp_pack.MOST_SHIFT}", str(right)),
    )


def scratch_dsp(op: BatchMatmul) -> int:
    """Held vectors and the moving one, 16 bits to an element, in eights."""
    held, _ = held_and_moving(op, cost_dsp)
    return 16 * -(-op.depth // 8) * (4 * in_fours(held) + 1)


DSP = dsp_row.routine("batch_matmul", "clamp")
MVE_KERNEL: Kernel = mve_elementwise.kernel(BatchMatmul, calls_mve, takes_mve, scratch_bytes=scratch_mve)
DSP_KERNEL: Kernel = dsp_row.row("batch_matmul", BatchMatmul, calls_dsp, takes_dsp, scratch_dsp)
