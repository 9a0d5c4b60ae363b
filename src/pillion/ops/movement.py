# SPDX-License-Identifier: Apache-2.0
"""Data movement. Result and operands share their quantization."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from pillion.ir.access import Access, AxisMap, Span, identity_access
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, Quantization, op, operand, require_same_quant, result
from pillion.ir.types import Array, DType, Pair, Shape, TensorType, Value
from pillion.ops.example_values import ZERO_POINTS, make_op, value
from pillion.ops.reduce import check_axes

Case = tuple[Shape, Shape, dict[str, Any]]
"""The operand's shape, the result's shape if it is not inferred, and attributes."""


class Movement(Op):
    """The base class of data movement: result and operands share scale and zero point."""

    takes_int16 = True

    cases: ClassVar[tuple[Case, ...]] = ()
    """The examples."""

    def check(self) -> None:
        if self.results[0].dtype is DType.INT8:
            require_same_quant(self, *self.operands, *self.results)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        for number, (shape, out_shape, attributes) in enumerate(cls.cases):
            x = value("x", shape, 0.1, ZERO_POINTS[number % 4])
            y = value("y", out_shape, x.scale, x.zero_point)
            yield make_op(cls, y, **cls.of_one(x, attributes), **attributes)

    @classmethod
    def of_one(cls, x: Value, attributes: dict[str, Any]) -> dict[str, Any]:
        """Returns the operands of an example that is built around one tensor."""
        return {"x": x}


@op("reshape", quantization=Quantization.SHARED)
class Reshape(Movement):
    """Keeps the elements in order and changes the shape: no work at run time."""

    cases = (((2, 3, 5, 7), (2, 105), {}), ((1, 7, 1, 3), (7, 3), {}), ((2, 3, 5, 7), (2, 3, 35), {}))
    is_identity = True

    x: Value = operand()
    y: Value = result()

    def access(self, operand: Value) -> Access:
        return tuple(self._preserved_axis_map(axis) for axis in range(self.x.type.rank))

    def _preserved_axis_map(self, axis: int) -> AxisMap | str:
        """Returns the result's axis of the same size with the same number of elements in front, preferably at the
        same position."""
        outer, size = math.prod(self.x.shape[:axis]), self.x.shape[axis]
        for number in sorted(range(self.y.type.rank), key=lambda number: number != axis):
            if self.y.shape[number] == size and math.prod(self.y.shape[:number]) == outer:
                return AxisMap(number)
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
    def is_identity(self) -> bool:
        """Whether elements keep their order: only axes of size 1 move."""
        real = [axis for axis in self.order if self.x.shape[axis] != 1]
        return real == sorted(real)

    def access(self, operand: Value) -> Access:
        return tuple(AxisMap(self.order.index(axis)) for axis in range(len(self.order)))

    def infer(self) -> TensorType:
        if sorted(self.order) != list(range(self.x.type.rank)):
            raise self.refuse(f"order is a permutation of {self.x.type.rank} axes", self.order)
        return TensorType(tuple(self.x.shape[a] for a in self.order), self.x.dtype)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return np.asarray(operands[0].transpose(self.order), order="C")


@op("slice", quantization=Quantization.SHARED)
class Slice(Movement):
    """Takes every `step`-th element from `begin` on along each axis."""

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
    def is_identity(self) -> bool:
        return self.x.shape == self.y.shape

    def access(self, operand: Value) -> Access:
        axes = enumerate(zip(self.begin, self.step, strict=True))
        return tuple(AxisMap(axis, begin, begin, step) for axis, (begin, step) in axes)

    def tile(self, axis: int, span: Span, missing: Pair) -> dict[str, object]:
        return {"begin": _replace_axis_entry(self.begin, axis, 0)}

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


def copy_op(x: Value, y: Value, source: str = "") -> Slice:
    """Returns the op that copies a tensor."""
    return Slice(x=x, y=y, begin=(0,) * x.type.rank, step=(1,) * x.type.rank, source=source)


@op("pad", quantization=Quantization.SHARED)
class Pad(Movement):
    """Pads each axis with `before` and `after` elements of `value` (an integer level in quantized tensors)."""

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
    def is_identity(self) -> bool:
        return not any((*self.before, *self.after))

    def access(self, operand: Value) -> Access:
        return tuple(
            AxisMap(axis, -before, -before, padding_level=self.value, least=0)
            for axis, before in enumerate(self.before)
        )

    def tile(self, axis: int, span: Span, missing: Pair) -> dict[str, object]:
        return {
            "before": _replace_axis_entry(self.before, axis, missing[0]),
            "after": _replace_axis_entry(self.after, axis, missing[1]),
        }

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
    """Concatenates the operands along `axis`."""

    cases = (((2, 3, 5, 7), (), {"axis": 3}), ((2, 3, 5, 7), (), {"axis": 1}), ((5,), (), {"axis": 0}))

    xs: tuple[Value, ...] = operand()
    y: Value = result()
    axis: int = 0

    @classmethod
    def of_one(cls, x: Value, attributes: dict[str, Any]) -> dict[str, Any]:
        """Returns a wider second operand and a third one like the first."""
        axis = attributes["axis"]
        wider = tuple(d + 1 if i == axis else d for i, d in enumerate(x.shape))
        second = value("x2", wider, x.scale, x.zero_point)
        return {"xs": (x, second, value("x3", x.shape, x.scale, x.zero_point))}

    @property
    def is_identity(self) -> bool:
        return len(self.xs) == 1

    def access(self, operand: Value) -> Access:
        return identity_access(operand, {self.axis}, "it puts them under one another")

    def infer(self) -> TensorType:
        """Returns the type of the result. A constant may already be quantized while other operands are real."""
        first = self.xs[0].shape if self.xs else ()
        rests = {(v.type.rank, (*v.shape[: self.axis], *v.shape[self.axis + 1 :])) for v in self.xs}
        computed = [v for v in self.xs if not (v.is_constant and v.is_quantized)] or list(self.xs)
        types = {v.dtype for v in computed}
        if len(rests) != 1 or len(types) != 1 or not 0 <= self.axis < len(first):
            raise self.refuse(f"operands agree in type and in all axes but {self.axis}", list(self.xs))
        length = sum(v.shape[self.axis] for v in self.xs)
        return TensorType((*first[: self.axis], length, *first[self.axis + 1 :]), types.pop())

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return np.concatenate(operands, axis=self.axis)


@op("flip", quantization=Quantization.SHARED)
class Flip(Movement):
    """Reverses the elements along some axes."""

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
    def is_identity(self) -> bool:
        return all(self.x.shape[axis] == 1 for axis in self.axes)

    def access(self, operand: Value) -> Access:
        return identity_access(operand, self.axes, "it reverses them")

    def infer(self) -> TensorType:
        return TensorType(self.x.shape, self.x.dtype)

    def check(self) -> None:
        super().check()
        check_axes(self, self.axes, self.x.type.rank)
        if not self.axes:
            raise self.refuse("at least one axis", self.axes)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return np.ascontiguousarray(np.flip(operands[0], self.axes))


def _replace_axis_entry(numbers: tuple[int, ...], axis: int, number: int) -> tuple[int, ...]:
    return (*numbers[:axis], number, *numbers[axis + 1 :])


def computes_in_16_bits(op: Op) -> bool:
    """Whether an op computes with 16-bit tensors, for which other runtimes lack kernels; moves take any width."""
    is_wide = DType.INT16 in {v.dtype for v in (*op.activations, *op.results)}
    return op.takes_int16 and is_wide and not isinstance(op, Movement)
