# SPDX-License-Identifier: Apache-2.0
"""Ops that only move data: result and operands share their quantization."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, Quantization, op, operand, result, want_same_quant
from pillion.ir.types import Array, DType, Shape, TensorType, Value
from pillion.ops import samples


class Movement(Op):
    """The base of all ops that only move data: result and operands have one scale and zero point."""

    def check(self) -> None:
        if self.results[0].dtype is DType.INT8:
            want_same_quant(self, *self.operands, *self.results)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        yield from samples.movement_examples(cls)


@op("reshape", quantization=Quantization.SHARED)
class Reshape(Movement):
    """Gives the same elements in the same order under another shape: no work at run time."""

    is_idle = True

    x: Value = operand()
    y: Value = result()

    def infer(self) -> TensorType:
        if self.x.type.elements != self.y.type.elements:
            raise self.refuse("the number of elements stays", f"{list(self.x.shape)} to {list(self.y.shape)}")
        return TensorType(self.y.shape, self.x.dtype)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return operands[0].reshape(self.y.shape)


@op("transpose", quantization=Quantization.SHARED)
class Transpose(Movement):
    """Axis i of the result is axis order[i] of the operand."""

    x: Value = operand()
    y: Value = result()
    order: tuple[int, ...] = ()

    @property
    def is_idle(self) -> bool:
        """Whether elements keep their order: axes of size 1 may go anywhere."""
        real = [axis for axis in self.order if self.x.shape[axis] != 1]
        return real == sorted(real)

    def infer(self) -> TensorType:
        if sorted(self.order) != list(range(self.x.type.rank)):
            raise self.refuse(f"order is a permutation of {self.x.type.rank} axes", self.order)
        return TensorType(tuple(self.x.shape[a] for a in self.order), self.x.dtype)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return np.asarray(operands[0].transpose(self.order), order="C")


@op("slice", quantization=Quantization.SHARED)
class Slice(Movement):
    """Takes every `step`-th element from `begin` along each axis, as many as the result has."""

    x: Value = operand()
    y: Value = result()
    begin: tuple[int, ...] = ()
    step: tuple[int, ...] = ()

    @property
    def is_idle(self) -> bool:
        return self.x.shape == self.y.shape

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

    x: Value = operand()
    y: Value = result()
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    value: float = 0

    @property
    def is_idle(self) -> bool:
        return not any((*self.before, *self.after))

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

    xs: tuple[Value, ...] = operand()
    y: Value = result()
    axis: int = 0

    @property
    def is_idle(self) -> bool:
        return len(self.xs) == 1

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


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])
