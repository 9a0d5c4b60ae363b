# SPDX-License-Identifier: Apache-2.0
"""Tensors as rows of elements: what the portable kernels with nested loops are told (kernels/include/pillion/walk.h)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pillion.emitters.c.kernel import Call, Kernel, Params, Routine
from pillion.emitters.c.portable.reduce import collapsed, few_axes, numbers
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType, Shape, Value
from pillion.ir.verdict import Verdict

OpClass = TypeVar("OpClass", bound=Op)


@dataclass(frozen=True)
class Rows:
    """The same walk through several tensors: rows of `count` elements, and the axes from row to row. For each tensor,
    the step from element to element and the steps along those axes."""

    count: int
    step: Shape
    extent: Shape
    row_step: tuple[Shape, ...]

    @property
    def rows(self) -> int:
        return math.prod(self.extent)

    @property
    def params(self) -> Params:
        return {"rows": self.rows, "count": self.count}

    @property
    def axes(self) -> Params:
        return {"axes": len(self.extent), "extent": numbers(self.extent)}

    @property
    def few_axes(self) -> tuple[Verdict, ...]:
        return few_axes(len(self.extent))


Inner = Callable[[Shape, list[Shape]], int]
"""Which of some axes, given by sizes and steps, is to be that of the elements in a row."""


def last(extent: Shape, steps: list[Shape]) -> int:
    return len(extent) - 1


def rows_of(extent: Shape, steps: list[Shape], inner: Inner = last) -> Rows:
    """The walk with as few axes as possible, one of them along the rows."""
    extent, steps = collapsed(extent, steps)
    if not extent:
        return Rows(1, (1,) * len(steps), (), ((),) * len(steps))
    axis = inner(extent, steps)
    row_step = tuple(_without(s, axis) for s in steps)
    return Rows(extent[axis], tuple(s[axis] for s in steps), _without(extent, axis), row_step)


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])


def routine(name: str) -> Routine:
    return Routine(f"pillion_{name}", f"portable/{name}.c")


def row(
    op: type[OpClass],
    calls: Callable[[OpClass, Arithmetic], tuple[Call, ...]],
    takes: Callable[[OpClass, Arithmetic], tuple[Verdict, ...]],
    scratch_bytes: Callable[[OpClass], int] = lambda op: 0,
    in_place: Callable[[OpClass], tuple[Value, ...]] = lambda op: (),
    name: str = "",
) -> Kernel:
    """A row of the table whose functions take the op's own class: they are called with no other. A result without
    elements takes no call."""

    def calls_for_elements(made: OpClass, arithmetic: Arithmetic) -> tuple[Call, ...]:
        return calls(made, arithmetic) if made.results[0].type.elements else ()

    functions: Any = (calls_for_elements, takes, scratch_bytes, in_place)
    return Kernel(name or op.kind, op, *functions)


def int8(**values: Value) -> tuple[Verdict, ...]:
    """The rule of most kernels: operands and result are int8."""
    return tuple(Verdict(name, v.dtype is DType.INT8, "int8", v.dtype.value) for name, v in values.items())


def constants(**values: Value) -> tuple[Verdict, ...]:
    """The rule of kernels that pack their weights: they are known at compile time."""
    return tuple(
        Verdict(name, v.is_constant, "a constant", "a constant" if v.is_constant else "computed")
        for name, v in values.items()
    )


def overwritable(op: Op, *operands: Value) -> tuple[Value, ...]:
    """Of some operands, those whose memory a result of the same shape may take over."""
    return tuple(v for v in dict.fromkeys(operands) if not v.is_constant and v.shape == op.results[0].shape)
