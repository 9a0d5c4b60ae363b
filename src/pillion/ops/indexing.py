# SPDX-License-Identifier: Apache-2.0
"""Gather, and casts of integers."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pillion.ir.access import Access, AxisMap
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, Quantization, op, operand, require_dtype, require_same_quant, result
from pillion.ir.types import Array, DType, PerTensor, Shape, TensorType, Value, constant_value
from pillion.ops.example_values import ZERO_POINTS, in_16_bits, make_op, value
from pillion.ops.rowwise import Unary


@op("gather", quantization=Quantization.SHARED)
class Gather(Op):
    """Gathers slices along an axis by index; the axes of the indices replace that axis.

    The first `batch` axes are common to data and indices. Indices below 0 count as 0, indices behind the last
    slice as the last slice."""

    takes_int16 = True

    x: Value = operand()
    indices: Value = operand()
    y: Value = result()
    axis: int = 0
    batch: int = 0

    is_identity = False

    def access(self, operand: Value) -> Access:
        if operand is self.indices:
            first, moved = self.batch, self.axis - self.batch
        else:
            first, moved = self.axis + 1, self.indices.type.rank - self.batch - 1
        maps = [AxisMap(axis + moved * (axis >= first)) for axis in range(operand.type.rank)]
        is_taken = operand is self.x
        return tuple(
            "they are taken by their numbers" if is_taken and a == self.axis else m
            for a, m in enumerate(maps)
        )

    @property
    def sizes(self) -> tuple[int, int, int, int, int]:
        """The operand as [batch, outer, size, inner], and the number of indices per batch."""
        shape = self.x.shape
        batch, outer = math.prod(shape[: self.batch]), math.prod(shape[self.batch : self.axis])
        count = math.prod(self.indices.shape[self.batch :])
        return batch, outer, shape[self.axis], math.prod(shape[self.axis + 1 :]), count

    def infer(self) -> TensorType:
        self._require_axes()
        shape = self.indices.shape[self.batch :]
        return TensorType((*self.x.shape[: self.axis], *shape, *self.x.shape[self.axis + 1 :]), self.x.dtype)

    def _require_axes(self) -> None:
        fits = 0 <= self.batch <= self.axis < self.x.type.rank and self.batch <= self.indices.type.rank
        if not fits or self.x.shape[: self.batch] != self.indices.shape[: self.batch]:
            raise self.refuse(
                "an axis of the operand, behind batch axes that the numbers have too",
                f"axis {self.axis}, batch {self.batch}, {list(self.x.shape)} by {list(self.indices.shape)}",
            )
        if not self.x.shape[self.axis]:
            raise self.refuse("the axis has a slice at least", list(self.x.shape))

    def check(self) -> None:
        require_dtype(self, self.indices, DType.INT32)
        self._require_axes()
        if self.y.dtype in (DType.INT8, DType.INT16) and self.y.is_quantized:
            require_same_quant(self, self.x, self.y)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        batch, outer, size, inner, count = self.sizes
        x = operands[0].reshape(batch, outer, size, inner)
        numbers = np.clip(operands[1].reshape(batch, count), 0, size - 1)
        gathered = np.take_along_axis(x, numbers[:, None, :, None].astype(np.int64), axis=2)
        return gathered.reshape(self.infer().shape)

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
                values = np.random.default_rng(number).integers(0, shape[axis], numbers).astype(np.int32)
                indices = constant_value("indices", values)
            y = value("y", (), x.scale, x.zero_point)
            yield make_op(cls, y, x=x, indices=indices, axis=axis, batch=batch)
        flags = Value("x", TensorType((5, 3), DType.BOOL))
        indices = Value("indices", TensorType((4,), DType.INT32))
        yield make_op(cls, Value("y", TensorType((), DType.BOOL)), x=flags, indices=indices)
        wide = in_16_bits(value("x", (3, 5, 7), 0.1))
        yield make_op(cls, wide.like("y"), x=wide, indices=indices, axis=1)


CASTS = (DType.BOOL, DType.UINT8, DType.INT32)
"""Integer types without a scale."""
SOURCES = (*CASTS, DType.INT8, DType.INT16)
"""Integer types that a program accepts as input."""


@op("cast", quantization=Quantization.NONE)
class Cast(Unary):
    """Converts integers to another element type: booleans are 0 and 1, and true is everything but 0. Values that
    do not fit keep their lowest bits, as in PyTorch."""

    is_identity = False

    to: DType = DType.INT32

    def infer(self) -> TensorType:
        return TensorType(self.x.shape, self.to)

    def check(self) -> None:
        is_known = self.x.dtype in SOURCES and self.to in (*SOURCES, DType.FLOAT32)
        if not is_known or self.x.type.quant not in (None, PerTensor(1.0)):
            types = ", ".join(t.value for t in SOURCES)
            raise self.refuse(f"from {types} to one of these or float32", f"{self.x!r} to {self.to.value}")

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return operands[0].astype(self.to.numpy)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        for targets in ((*CASTS, DType.FLOAT32), (DType.INT8, DType.INT16)):
            for number, source in enumerate(SOURCES):
                for to in targets:
                    if to is not source:
                        x = Value("x", TensorType((2, 3, 5 + number), source))
                        yield make_op(cls, Value("y", TensorType((), to)), x=x, to=to)
