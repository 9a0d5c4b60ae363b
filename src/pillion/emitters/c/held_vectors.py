# SPDX-License-Identifier: Apache-2.0
"""Matrix products of two tensors on cores with vectors: the vectors of one operand are held in scratch, those of the other move
along them. Which of the two is held is a question of cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pillion.emitters.c.kernel import Params
from pillion.ir.types import Value
from pillion.ops.matmul import BatchMatmul


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
    """Gives both operands as vectors: the rows of a, the columns of b."""
    rows, depth, columns = op.rows, op.depth, op.columns
    row_step, a_step = (1, rows) if op.adj_x else (depth, 1)
    column_step, b_step = (depth, 1) if op.adj_y else (1, columns)
    return Side(op.a, rows, row_step, a_step, columns), Side(op.b, columns, column_step, b_step, 1)


Cost = Callable[[Side, Side, int], int]
"""Instructions, roughly, with these held and those moving, of vectors so long."""


def in_fours(held: Side) -> int:
    """Counts the groups of four vectors that are held."""
    return -(-held.count // 4)


def held_and_moving(op: BatchMatmul, cost: Cost) -> tuple[Side, Side]:
    """Chooses the cheaper of both ways: which operand is held in scratch, and which moves along it."""
    a, b = sides(op)
    return (a, b) if cost(a, b, op.depth) <= cost(b, a, op.depth) else (b, a)


def walk(op: BatchMatmul, cost: Cost) -> Params:
    """Gives the sizes and steps of both operands as parameters."""
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
    """Gives the held operand, then the moving one, as the kernel takes them."""
    held, moving = held_and_moving(op, cost)
    return held.value, moving.value
