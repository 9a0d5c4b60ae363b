# SPDX-License-Identifier: Apache-2.0
"""Matrix products of two tensors on cores with vectors: one operand's vectors are held in scratch memory, the
other's stream past them. A cost estimate decides which operand is held."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pillion.emitters.c.kernel import Params
from pillion.ir.types import Value
from pillion.ops.matmul import BatchMatmul


@dataclass(frozen=True)
class MatmulSide:
    """The vectors of one operand in a batch: their number, and the steps between vectors, elements and results."""

    value: Value
    count: int
    step: int
    element_step: int
    y_step: int


def matmul_sides(op: BatchMatmul) -> tuple[MatmulSide, MatmulSide]:
    """Returns both operands as vectors: the rows of a and the columns of b."""
    rows, depth, columns = op.rows, op.depth, op.columns
    row_step, a_step = (1, rows) if op.adj_x else (depth, 1)
    column_step, b_step = (depth, 1) if op.adj_y else (1, columns)
    return MatmulSide(op.a, rows, row_step, a_step, columns), MatmulSide(
        op.b, columns, column_step, b_step, 1
    )


Cost = Callable[[MatmulSide, MatmulSide, int], int]
"""Estimated instructions for a held side, a moving side and the vector length."""


def groups_of_four(held: MatmulSide) -> int:
    """Returns the number of groups of four held vectors."""
    return -(-held.count // 4)


def held_and_moving(op: BatchMatmul, cost: Cost) -> tuple[MatmulSide, MatmulSide]:
    """Chooses the operand to hold in scratch, and the one to stream past it, by the cheaper cost."""
    a, b = matmul_sides(op)
    return (a, b) if cost(a, b, op.depth) <= cost(b, a, op.depth) else (b, a)


def walk_params(op: BatchMatmul, cost: Cost) -> Params:
    """Returns the sizes and steps of both operands as parameters."""
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
    """Returns the held operand, then the moving one, in the kernel's argument order."""
    held, moving = held_and_moving(op, cost)
    return held.value, moving.value
