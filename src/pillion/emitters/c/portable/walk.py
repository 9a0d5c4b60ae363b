# SPDX-License-Identifier: Apache-2.0
"""Tensors as rows of elements: what the portable kernels with nested loops are told (kernels/include/pillion/walk.h)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from pillion.emitters.c.axes import collapsed, few_axes, numbers
from pillion.emitters.c.kernel import Params
from pillion.ir.types import Shape
from pillion.ir.verdict import Verdict


@dataclass(frozen=True)
class Rows:
    """One walk through several tensors: rows of `count` elements, and the axes from row to row. For each tensor, the step from
    element to element and the steps along those axes."""

    count: int
    step: Shape
    extent: Shape
    row_step: tuple[Shape, ...]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return math.prod(self.extent)

    @property
    def params(self) -> Params:
        """The number of rows and their length as parameters."""
        return {"rows": self.rows, "count": self.count}

    @property
    def axes(self) -> Params:
        """The axes from row to row as parameters."""
        return {"axes": len(self.extent), "extent": numbers(self.extent)}

    @property
    def few_axes(self) -> tuple[Verdict, ...]:
        """The verdict whether the kernels have room for so many axes."""
        return few_axes(len(self.extent))


Inner = Callable[[Shape, list[Shape]], int]
"""A choice of the axis that the elements of a row lie along, from sizes and steps."""


def last(extent: Shape, steps: list[Shape]) -> int:
    """Chooses the last axis for the inner loop."""
    return len(extent) - 1


def rows_of(extent: Shape, steps: list[Shape], inner: Inner = last) -> Rows:
    """Makes the walk with as few axes as possible, one of them along the rows."""
    extent, steps = collapsed(extent, steps)
    if not extent:
        return Rows(1, (1,) * len(steps), (), ((),) * len(steps))
    axis = inner(extent, steps)
    row_step = tuple(_without(s, axis) for s in steps)
    return Rows(extent[axis], tuple(s[axis] for s in steps), _without(extent, axis), row_step)


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])
