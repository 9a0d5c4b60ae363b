# SPDX-License-Identifier: Apache-2.0
"""Builds the ops of an operator that becomes several, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.ir.op import Op
from pillion.ir.types import Array, PerTensor, Shape, Value, constant_value
from pillion.ops.indexing import Gather
from pillion.ops.movement import Concat, Flip, Pad, Reshape, Slice, Transpose


class OpChain:
    """The ops of one operator. Each method adds an op and returns its result: a new value of this name and of
    the operand's type, or the value that is given for it."""

    def __init__(self, call: ReadOperator) -> None:
        self.call, self.ops = call, list[Op]()

    def add(self, cls: Any, y: Value | str, shape: Shape, like: Value, **fields: object) -> Value:
        """Adds an op of any class."""
        result = (
            self.call.intermediate(y, shape, like) if isinstance(y, str) else self.call.with_shape(y, shape)
        )
        self.ops.append(cls(y=result, source=self.call.source, **fields))
        return result

    def numbers(self, numbers: ArrayLike, name: str = "numbers") -> Value:
        """Returns an int32 constant."""
        fresh = self.call.fresh(f"{self.call.outputs[0].name}/{name}")
        return constant_value(fresh, np.asarray(numbers, np.int32))

    def reshape(self, x: Value, shape: Shape, y: Value | str | None = None) -> Value:
        """Changes the shape; without `y`, only if it differs."""
        return x if y is None and x.shape == shape else self.add(Reshape, y or "reshaped", shape, x, x=x)

    def transpose(self, x: Value, order: Sequence[int], y: Value | str) -> Value:
        """Puts the axes of a tensor in another order."""
        shape = tuple(x.shape[axis] for axis in order)
        return self.add(Transpose, y, shape, x, x=x, order=tuple(order))

    def slice(self, x: Value, begin: Shape, shape: Shape, y: Value | str) -> Value:
        """Takes a block of adjacent elements."""
        return self.add(Slice, y, shape, x, x=x, begin=begin, step=(1,) * x.type.rank)

    def cut(self, x: Value, axis: int, begin: int, size: int, y: Value | str = "part") -> Value:
        """Takes adjacent elements along one axis."""
        first = tuple(begin if i == axis else 0 for i in range(x.type.rank))
        return self.slice(x, first, _with_size(x, axis, size), y)

    def pad(self, x: Value, before: Shape, after: Shape, y: Value | str) -> Value:
        """Adds borders of zeros."""
        shape = tuple(b + d + a for b, d, a in zip(before, x.shape, after, strict=True))
        zero = x.zero_point if isinstance(x.type.quant, PerTensor) else 0
        return self.add(Pad, y, shape, x, x=x, before=before, after=after, value=zero)

    def concat(self, xs: Sequence[Value], axis: int, y: Value | str) -> Value:
        """Joins tensors along an axis."""
        shape = _with_size(xs[0], axis, sum(x.shape[axis] for x in xs))
        return self.add(Concat, y, shape, xs[0], xs=tuple(xs), axis=axis)

    def gather(self, x: Value, indices: Value, y: Value | str, axis: int = 0) -> Value:
        """Takes slices by their numbers."""
        shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
        return self.add(Gather, y, shape, x, x=x, indices=indices, axis=axis)

    def flip(self, x: Value, axis: int, y: Value | str) -> Value:
        """Reverses an axis."""
        return self.add(Flip, y, x.shape, x, x=x, axes=(axis,))


def as_constant(call: ReadOperator, data: Array) -> list[Op]:
    """Binds an operator's result to a constant of this shape, and returns no ops."""
    y = call.result_of_shape(data.shape)
    call.bind(y, constant_value(y.name, data, y.type.quant))
    return []


def _with_size(x: Value, axis: int, size: int) -> Shape:
    return (*x.shape[:axis], size, *x.shape[axis + 1 :])
