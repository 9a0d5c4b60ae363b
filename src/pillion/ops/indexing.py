# SPDX-License-Identifier: Apache-2.0
"""What is looked up by numbers, and numbers in other element types."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pillion.ir.along import Along, Course
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, Quantization, op, operand, result, want_dtype, want_same_quant
from pillion.ir.rows import ROWS, Span, why_no_rows
from pillion.ir.types import Array, DType, PerTensor, Shape, TensorType, Value, constant
from pillion.ops.rowwise import RowWise
from pillion.ops.samples import ZERO_POINTS, make, value


@op("gather", quantization=Quantization.SHARED)
class Gather(Op):
    """Takes slices along an axis by their numbers: the axes of the numbers stand in the place of that axis.

    The first `batch` axes are common to both: each batch has numbers of its own. Numbers below 0 count as 0, those behind the
    last slice as that one."""

    x: Value = operand()
    indices: Value = operand()
    y: Value = result()
    axis: int = 0
    batch: int = 0

    is_idle = False

    @property
    def crosses_rows(self) -> str:
        if self.axis <= ROWS or self.batch:
            return "it takes rows or images by their numbers"
        return why_no_rows(self.y)

    def rows_of(self, operand: Value, span: Span) -> Span | None:
        return span if operand is self.x else None

    def along(self, operand: Value, axis: int) -> Course:
        if axis < self.batch:
            is_fixed = self.x.is_constant or self.indices.is_constant
            return "each takes from rows of its own, which are constants" if is_fixed else Along(axis)
        if operand is self.x:
            behind = axis + self.indices.type.rank - self.batch - 1
            return (
                "they are taken by their numbers"
                if axis == self.axis
                else Along(axis if axis < self.axis else behind)
            )
        return Along(self.axis + axis - self.batch)

    @property
    def sizes(self) -> tuple[int, int, int, int, int]:
        """The operand as [batch, outer, size, inner], and how many numbers there are in a batch."""
        shape = self.x.shape
        batch, outer = math.prod(shape[: self.batch]), math.prod(shape[self.batch : self.axis])
        count = math.prod(self.indices.shape[self.batch :])
        return batch, outer, shape[self.axis], math.prod(shape[self.axis + 1 :]), count

    def infer(self) -> TensorType:
        self._want_axes()
        found = self.indices.shape[self.batch :]
        return TensorType((*self.x.shape[: self.axis], *found, *self.x.shape[self.axis + 1 :]), self.x.dtype)

    def _want_axes(self) -> None:
        fits = 0 <= self.batch <= self.axis < self.x.type.rank and self.batch <= self.indices.type.rank
        if not fits or self.x.shape[: self.batch] != self.indices.shape[: self.batch]:
            raise self.refuse(
                "an axis of the operand, behind batch axes that the numbers have too",
                f"axis {self.axis}, batch {self.batch}, {list(self.x.shape)} by {list(self.indices.shape)}",
            )
        if not self.x.shape[self.axis]:
            raise self.refuse("the axis has a slice at least", list(self.x.shape))

    def check(self) -> None:
        want_dtype(self, self.indices, DType.INT32)
        self._want_axes()
        if self.y.dtype is DType.INT8:
            want_same_quant(self, self.x, self.y)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        batch, outer, size, inner, count = self.sizes
        x = operands[0].reshape(batch, outer, size, inner)
        numbers = np.clip(operands[1].reshape(batch, count), 0, size - 1)
        found = np.take_along_axis(x, numbers[:, None, :, None].astype(np.int64), axis=2)
        return found.reshape(self.infer().shape)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        cases: tuple[tuple[Shape, Shape, int, int], ...] = (
            ((11, 7), (2, 5), 0, 0),
            ((2, 3, 5, 7), (4,), 3, 0),
            ((2, 3, 5, 7), (3,), 1, 0),
            ((2, 9, 33), (2, 3), 1, 1),
            ((3, 5, 8), (3, 5, 2), 2, 2),
            ((2, 4, 5), (), 1, 0),
        )
        for number, (shape, numbers, axis, batch) in enumerate(cases):
            x = value("x", shape, 0.1, ZERO_POINTS[number % 4])
            indices = Value("indices", TensorType(numbers, DType.INT32))
            if number % 3 == 1:
                held = np.random.default_rng(number).integers(0, shape[axis], numbers).astype(np.int32)
                indices = constant("indices", held)
            y = value("y", (), x.scale, x.zero_point)
            yield make(cls, y, x=x, indices=indices, axis=axis, batch=batch)
        flags = Value("x", TensorType((5, 3), DType.BOOL))
        indices = Value("indices", TensorType((4,), DType.INT32))
        yield make(cls, Value("y", TensorType((), DType.BOOL)), x=flags, indices=indices)


CASTS = (DType.BOOL, DType.UINT8, DType.INT32)
"""The element types of whole numbers without a scale."""
SOURCES = (*CASTS, DType.INT8, DType.INT16)
"""The element types of whole numbers that a program is given."""


def _counts(value: Value) -> bool:
    """Whether numbers mean themselves."""
    return value.type.quant in (None, PerTensor(1.0))


@op("cast", quantization=Quantization.NONE)
class Cast(RowWise):
    """Gives whole numbers another element type: booleans are 0 and 1, and true is what is not 0. Numbers that do not fit keep
    their lowest bits, as in PyTorch."""

    is_idle = False

    x: Value = operand()
    y: Value = result()
    to: DType = DType.INT32

    def infer(self) -> TensorType:
        return TensorType(self.x.shape, self.to)

    def check(self) -> None:
        if self.x.dtype not in SOURCES or self.to not in (*CASTS, DType.FLOAT32) or not _counts(self.x):
            before, after = (", ".join(t.value for t in types) for types in (SOURCES, CASTS))
            raise self.refuse(f"from {before} to {after} or float32", f"{self.x!r} to {self.to.value}")

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return operands[0].astype(self.to.numpy)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        for number, source in enumerate(SOURCES):
            for to in (*CASTS, DType.FLOAT32):
                if to is not source:
                    x = Value("x", TensorType((2, 3, 5 + number), source))
                    yield make(cls, Value("y", TensorType((), to)), x=x, to=to)
