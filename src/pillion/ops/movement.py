# SPDX-License-Identifier: Apache-2.0
"""Ops that only move data: result and operands share their quantization."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from pillion.ir.along import Along, Course
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, Quantization, op, operand, result, want_same_quant
from pillion.ir.rows import ROWS, Span, why_no_rows, within
from pillion.ir.types import Array, DType, Shape, TensorType, Value
from pillion.ops.pool import check_axes
from pillion.ops.samples import ZERO_POINTS, make, value

Case = tuple[Shape, Shape, dict[str, Any]]
"""The shape of the operand, that of the result where the op does not infer it, and attributes."""


class Movement(Op):
    """The base of all ops that only move data: result and operands have one scale and zero point."""

    cases: ClassVar[tuple[Case, ...]] = ()
    """What the examples are."""

    def check(self) -> None:
        if self.results[0].dtype is DType.INT8:
            want_same_quant(self, *self.operands, *self.results)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        for number, (shape, out_shape, attributes) in enumerate(cls.cases):
            x = value("x", shape, 0.1, ZERO_POINTS[number % 4])
            y = value("y", out_shape, x.scale, x.zero_point)
            yield make(cls, y, **cls.of_one(x, attributes), **attributes)

    @classmethod
    def of_one(cls, x: Value, attributes: dict[str, Any]) -> dict[str, Any]:
        """The operands of an example that is drawn around one tensor."""
        return {"x": x}


@op("reshape", quantization=Quantization.SHARED)
class Reshape(Movement):
    """Gives the same elements in the same order under another shape: no work at run time."""

    cases = (((2, 3, 5, 7), (2, 105), {}), ((1, 7, 1, 3), (7, 3), {}), ((2, 3, 5, 7), (2, 3, 35), {}))
    is_idle = True

    x: Value = operand()
    y: Value = result()

    @property
    def crosses_rows(self) -> str:
        if self.x.shape[: ROWS + 1] != self.y.shape[: ROWS + 1]:
            return f"it turns {list(self.x.shape)} into {list(self.y.shape)}: rows become others"
        return why_no_rows(self.y) or why_no_rows(self.x)

    def rows_of(self, operand: Value, span: Span) -> Span | None:
        return span

    def along(self, operand: Value, axis: int) -> Course:
        outer, size = math.prod(self.x.shape[:axis]), self.x.shape[axis]
        for number, length in enumerate(self.y.shape):
            if length == size and math.prod(self.y.shape[:number]) == outer:
                return Along(number)
        return f"it turns {list(self.x.shape)} into {list(self.y.shape)}"

    def infer(self) -> TensorType:
        if self.x.type.elements != self.y.type.elements:
            raise self.refuse("the number of elements stays", f"{list(self.x.shape)} to {list(self.y.shape)}")
        return TensorType(self.y.shape, self.x.dtype)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return operands[0].reshape(self.y.shape)


@op("transpose", quantization=Quantization.SHARED)
class Transpose(Movement):
    """Axis i of the result is axis order[i] of the operand."""

    cases = (
        ((2, 3, 5, 7), (), {"order": (0, 2, 3, 1)}),
        ((2, 3, 5, 7), (), {"order": (0, 3, 1, 2)}),
        ((3, 5, 8), (), {"order": (2, 1, 0)}),
        ((9, 7), (), {"order": (1, 0)}),
        ((2, 3, 5, 2, 7), (), {"order": (4, 0, 2, 3, 1)}),
        ((2, 3, 5, 7), (), {"order": (0, 1, 3, 2)}),
    )

    x: Value = operand()
    y: Value = result()
    order: tuple[int, ...] = ()

    @property
    def is_idle(self) -> bool:
        """Whether elements keep their order: axes of size 1 may go anywhere."""
        real = [axis for axis in self.order if self.x.shape[axis] != 1]
        return real == sorted(real)

    @property
    def crosses_rows(self) -> str:
        if self.order[: ROWS + 1] != (0, ROWS):
            return f"it moves axes: {self.order}"
        return why_no_rows(self.y)

    def rows_of(self, operand: Value, span: Span) -> Span | None:
        return span

    def along(self, operand: Value, axis: int) -> Course:
        return Along(self.order.index(axis))

    def infer(self) -> TensorType:
        if sorted(self.order) != list(range(self.x.type.rank)):
            raise self.refuse(f"order is a permutation of {self.x.type.rank} axes", self.order)
        return TensorType(tuple(self.x.shape[a] for a in self.order), self.x.dtype)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return np.asarray(operands[0].transpose(self.order), order="C")


@op("slice", quantization=Quantization.SHARED)
class Slice(Movement):
    """Takes every `step`-th element from `begin` along each axis, as many as the result has."""

    cases = (
        ((2, 7, 5, 9), (1, 3, 5, 4), {"begin": (1, 2, 0, 5), "step": (1, 1, 1, 1)}),
        ((11, 7), (4, 3), {"begin": (1, 0), "step": (3, 2)}),
        ((2, 7, 5, 9), (2, 3, 5, 4), {"begin": (0, 1, 0, 5), "step": (1, 2, 1, 1)}),
    )

    x: Value = operand()
    y: Value = result()
    begin: tuple[int, ...] = ()
    step: tuple[int, ...] = ()

    @property
    def is_idle(self) -> bool:
        return self.x.shape == self.y.shape

    @property
    def crosses_rows(self) -> str:
        return "it takes some images only" if self.x.shape[:1] != self.y.shape[:1] else why_no_rows(self.y)

    def rows_of(self, operand: Value, span: Span) -> Span | None:
        step = self.step[ROWS]
        return Span(self.begin[ROWS] + step * span.first, step * (span.count - 1) + 1)

    def on_rows(self, span: Span) -> dict[str, object]:
        return {"begin": (*self.begin[:ROWS], 0, *self.begin[ROWS + 1 :])}

    def along(self, operand: Value, axis: int) -> Course:
        return Along(axis, stride=self.step[axis], front=-self.begin[axis])

    def all_inside(self, axis: int, count: int) -> dict[str, object]:
        return {"begin": (*self.begin[:axis], 0, *self.begin[axis + 1 :])}

    def infer(self) -> TensorType:
        rank = self.x.type.rank
        if not len(self.begin) == len(self.step) == self.y.type.rank == rank or min(self.step, default=1) < 1:
            raise self.refuse(f"begin and step have {rank} numbers, steps are positive", self.attributes)
        axes = zip(self.begin, self.step, self.y.shape, self.x.shape, strict=True)
        if any(b < 0 or d < 1 or b + s * (d - 1) >= size for b, s, d, size in axes):
            raise self.refuse(
                f"the slice lies inside {list(self.x.shape)}", f"{self.attributes} to {list(self.y.shape)}"
            )
        return TensorType(self.y.shape, self.x.dtype)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        axes = zip(self.begin, self.step, self.y.shape, strict=True)
        return np.asarray(operands[0][tuple(slice(b, b + s * (d - 1) + 1, s) for b, s, d in axes)], order="C")


@op("pad", quantization=Quantization.SHARED)
class Pad(Movement):
    """Puts `before` and `after` elements of `value` around each axis (an integer level for quantized tensors)."""

    cases = (
        ((2, 3, 5, 7), (), {"before": (0, 1, 2, 0), "after": (0, 0, 1, 0), "value": -5}),
        ((5, 3), (), {"before": (1, 1), "after": (2, 0), "value": 127}),
        ((1, 3, 5, 8), (), {"before": (0, 0, 0, 1), "after": (0, 0, 0, 8), "value": -128}),
    )

    x: Value = operand()
    y: Value = result()
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    value: float = 0

    @property
    def is_idle(self) -> bool:
        return not any((*self.before, *self.after))

    @property
    def crosses_rows(self) -> str:
        return "it adds images" if self.before[0] or self.after[0] else why_no_rows(self.y)

    def rows_of(self, operand: Value, span: Span) -> Span | None:
        top = self.before[ROWS]
        return within(span.first - top, span.end - top, self.x.shape[ROWS])

    def on_rows(self, span: Span) -> dict[str, object]:
        top, size = self.before[ROWS], self.x.shape[ROWS]
        above = min(max(top - span.first, 0), span.count)
        below = min(max(span.end - top - size, 0), span.count)
        return {
            "before": (self.before[0], above, *self.before[ROWS + 1 :]),
            "after": (self.after[0], below, *self.after[ROWS + 1 :]),
        }

    def along(self, operand: Value, axis: int) -> Course:
        return Along(axis, front=self.before[axis], outside=self.value)

    def all_inside(self, axis: int, count: int) -> dict[str, object]:
        before, after = ((*sides[:axis], 0, *sides[axis + 1 :]) for sides in (self.before, self.after))
        return {"before": before, "after": after}

    def infer(self) -> TensorType:
        if (
            not len(self.before) == len(self.after) == self.x.type.rank
            or min((*self.before, *self.after), default=0) < 0
        ):
            raise self.refuse(
                f"before and after have {self.x.type.rank} numbers, none negative", self.attributes
            )
        if not self.x.type.rank:
            raise self.refuse("the operand has at least one axis", "a scalar")
        axes = zip(self.before, self.x.shape, self.after, strict=True)
        return TensorType(tuple(b + d + a for b, d, a in axes), self.x.dtype)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        widths = tuple(zip(self.before, self.after, strict=True))
        fill = operands[0].dtype.type(self.value)
        return np.pad(operands[0], widths, constant_values=fill)


@op("concat", quantization=Quantization.SHARED)
class Concat(Movement):
    """Puts the operands one after another along `axis`."""

    cases = (((2, 3, 5, 7), (), {"axis": 3}), ((2, 3, 5, 7), (), {"axis": 1}), ((5,), (), {"axis": 0}))

    xs: tuple[Value, ...] = operand()
    y: Value = result()
    axis: int = 0

    @classmethod
    def of_one(cls, x: Value, attributes: dict[str, Any]) -> dict[str, Any]:
        """A second operand that is wider along the axis, and a third one like the first."""
        axis = attributes["axis"]
        wider = tuple(d + 1 if i == axis else d for i, d in enumerate(x.shape))
        second = value("x2", wider, x.scale, x.zero_point)
        return {"xs": (x, second, value("x3", x.shape, x.scale, x.zero_point))}

    @property
    def is_idle(self) -> bool:
        return len(self.xs) == 1

    @property
    def crosses_rows(self) -> str:
        if self.axis <= ROWS:
            return "it puts rows under one another" if self.axis == ROWS else "it joins images"
        return why_no_rows(self.y, self.xs)

    def rows_of(self, operand: Value, span: Span) -> Span | None:
        return span

    def along(self, operand: Value, axis: int) -> Course:
        return Along(axis) if axis != self.axis else "it puts them under one another"

    def infer(self) -> TensorType:
        """Gives the type of the result. A constant may be quantized already while the other operands are still real numbers."""
        first = self.xs[0].shape if self.xs else ()
        rests = {(v.type.rank, _without(v.shape, self.axis)) for v in self.xs}
        computed = [v for v in self.xs if not (v.is_constant and v.is_quantized)] or list(self.xs)
        types = {v.dtype for v in computed}
        if len(rests) != 1 or len(types) != 1 or not 0 <= self.axis < len(first):
            raise self.refuse(f"operands agree in type and in all axes but {self.axis}", list(self.xs))
        whole = sum(v.shape[self.axis] for v in self.xs)
        return TensorType((*first[: self.axis], whole, *first[self.axis + 1 :]), types.pop())

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return np.concatenate(operands, axis=self.axis)


@op("flip", quantization=Quantization.SHARED)
class Flip(Movement):
    """The elements along some axes in reverse order."""

    cases = (
        ((2, 3, 5, 7), (), {"axes": (2,)}),
        ((2, 5, 8), (), {"axes": (0, 2)}),
        ((11, 7), (), {"axes": (0, 1)}),
        ((1, 3, 5, 1), (), {"axes": (0, 3)}),
    )

    x: Value = operand()
    y: Value = result()
    axes: tuple[int, ...] = ()

    @property
    def is_idle(self) -> bool:
        return all(self.x.shape[axis] == 1 for axis in self.axes)

    @property
    def crosses_rows(self) -> str:
        return "it reverses rows or images" if min(self.axes) <= ROWS else why_no_rows(self.y)

    def rows_of(self, operand: Value, span: Span) -> Span | None:
        return span

    def along(self, operand: Value, axis: int) -> Course:
        return Along(axis) if axis not in self.axes else "it reverses them"

    def infer(self) -> TensorType:
        return TensorType(self.x.shape, self.x.dtype)

    def check(self) -> None:
        super().check()
        check_axes(self, self.axes, self.x.type.rank)
        if not self.axes:
            raise self.refuse("at least one axis", self.axes)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return np.ascontiguousarray(np.flip(operands[0], self.axes))


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])
