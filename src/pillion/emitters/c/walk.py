# SPDX-License-Identifier: Apache-2.0
"""Tensors as rows of elements, the parameters of the portable kernels with nested loops
(kernels/include/pillion/walk.h)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pillion.emitters.c.strides import as_int32_array, broadcast_steps, few_axes, merge_contiguous_axes
from pillion.ir.types import Shape
from pillion.ir.verdict import Verdict
from pillion.ops.elementwise import Binary


@dataclass(frozen=True)
class WalkRows:
    """A walk over several tensors: rows of `count` elements, and the axes from row to row. For each tensor, `step` is
    the distance between elements and `row_step` the distances along the axes."""

    count: int
    step: Shape
    extent: Shape
    row_step: tuple[Shape, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return math.prod(self.extent)

    @property
    def params(self) -> dict[str, Any]:
        """The number of rows and their length as parameters."""
        return {"rows": self.rows, "count": self.count}

    @property
    def axes(self) -> dict[str, Any]:
        """The axes from row to row as parameters."""
        return {"axes": len(self.extent), "extent": as_int32_array(self.extent)}

    @property
    def few_axes(self) -> tuple[Verdict, ...]:
        """The verdict whether the kernels' nested loops have enough axes."""
        return few_axes(len(self.extent))


Inner = Callable[[Shape, list[Shape]], int]
"""Chooses the axis of the inner loop from sizes and steps."""


def last_axis(extent: Shape, steps: list[Shape]) -> int:
    """Returns the last axis, for the inner loop."""
    return len(extent) - 1


def rows_of(extent: Shape, steps: list[Shape], inner: Inner = last_axis) -> WalkRows:
    """Returns the walk with as few axes as possible, one of them as the inner loop."""
    extent, steps = merge_contiguous_axes(extent, steps)
    if not extent:
        return WalkRows(1, (1,) * len(steps), (), ((),) * len(steps))
    axis = inner(extent, steps)
    row_step = tuple(_shape_without_axis(s, axis) for s in steps)
    return WalkRows(extent[axis], tuple(s[axis] for s in steps), _shape_without_axis(extent, axis), row_step)


def broadcast_walk(op: Binary) -> WalkRows:
    """Returns the walk over two operands with broadcasting."""
    return rows_of(op.y.shape, [broadcast_steps(v.shape, op.y.shape) for v in (op.a, op.b)])


def few_walk_axes(op: Binary) -> tuple[Verdict, ...]:
    """Checks whether the walk over two operands has few enough axes."""
    return broadcast_walk(op).few_axes


def rows_verdict(op: Binary) -> Verdict:
    """Checks whether both operands consist of rows of contiguous elements with one step from row to row."""
    rows = broadcast_walk(op)
    is_plain = rows.step == (1, 1) and len(rows.extent) <= 1
    got = f"{list(op.a.shape)} and {list(op.b.shape)}"
    return Verdict("broadcast", is_plain, "equal shapes, or whole rows again and again", got)


def _shape_without_axis(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])
