# SPDX-License-Identifier: Apache-2.0
"""Comparisons and selection: relations of two tensors, where, argmax and argmin, top-k."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.access import Access
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, Quantization, op, operand, require_dtype, require_same_quant, result
from pillion.ir.types import Array, DType, PerTensor, Shape, TensorType, Value
from pillion.ops.elementwise import Binary
from pillion.ops.example_values import BROADCASTS, RATIOS, ZERO_POINTS, in_16_bits, make_op, value
from pillion.ops.reduce import reduced_shape, reduction_access
from pillion.ops.rowwise import RowWise, Unary

LEFT_SHIFT = 8
"""Headroom in bits of an operand that LiteRT rescales before it compares."""
EVERY_LEVEL = range(-128, 128)


class Relation(Enum):
    """A relation of two numbers."""

    LESS = "less"
    LESS_EQUAL = "less_equal"
    EQUAL = "equal"
    NOT_EQUAL = "not_equal"
    GREATER_EQUAL = "greater_equal"
    GREATER = "greater"

    @property
    def outcomes(self) -> int:
        """The outcomes that satisfy the relation, as bits: 1 for less, 2 for equal, 4 for greater."""
        return (1, 3, 2, 5, 6, 4)[list(Relation).index(self)]

    @property
    def turned(self) -> Relation:
        """The relation with exchanged operands."""
        less, equal, greater = self.outcomes & 1, self.outcomes & 2, self.outcomes & 4
        return next(r for r in Relation if r.outcomes == less * 4 + equal + greater // 4)


Keys = NDArray[np.uint16]
"""A sort key for each int8 level: keys compare like the real values of the levels."""


@op("compare")
class Compare(Binary):
    """Compares two tensors element by element; the result is boolean.

    Operands of different scales are compared exactly, as real numbers; those of 16 bits by multipliers of 31 bits. Under `tflite` each operand is first
    scaled and rounded to 32 bits, as LiteRT does; scales must be below 1 there. Booleans and unscaled integers
    are compared directly."""

    takes_int16 = True

    is_identity = False

    relation: Relation = Relation.LESS

    def infer(self) -> TensorType:
        return TensorType(super().infer().shape, DType.BOOL)

    def check_scales(self, arithmetic: Arithmetic) -> None:
        if self.a.is_quantized and self.a.dtype is not DType.INT16:
            self.keys(arithmetic)

    @property
    def unit_multipliers(self) -> tuple[int, int]:
        """The factors of 16-bit levels, less their zero points, that make the operands comparable."""
        largest = max(self.a.scale, self.b.scale)
        first, second = numerics.to_fixed_point([v.scale / largest for v in (self.a, self.b)], 30).tolist()
        return first, second

    def keys(self, arithmetic: Arithmetic) -> tuple[Keys, Keys]:
        """Returns sort keys for all int8 levels of both operands."""
        if not self.a.is_quantized:
            same = np.arange(256, dtype=np.uint16)
            return same, same
        return _sort_keys(self.a.quant, self.b.quant, arithmetic)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        a, b = operands
        if a.dtype == np.int8 and self.a.is_quantized:
            a_keys, b_keys = self.keys(arithmetic)
            a, b = a_keys[a.astype(np.int64) + 128], b_keys[b.astype(np.int64) + 128]
        if a.dtype == np.int16 and self.a.is_quantized:
            a, b = (
                (x.astype(np.int64) - v.zero_point) * m
                for x, v, m in zip((a, b), (self.a, self.b), self.unit_multipliers, strict=True)
            )
        outcome = np.where(np.less(a, b), 1, np.where(np.equal(a, b), 2, 4))
        return np.asarray((outcome & self.relation.outcomes) != 0)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        relations = list(Relation)
        y = Value("y", TensorType((), DType.BOOL))
        for number, (a_shape, b_shape) in enumerate(BROADCASTS):
            ratio, relation = RATIOS[number % len(RATIOS)], relations[number % len(relations)]
            a = value("a", a_shape, 0.0625, ZERO_POINTS[number % 4])
            b = value("b", b_shape, a.scale * ratio, ZERO_POINTS[(number + 1) % 4])
            yield make_op(cls, y, a=a, b=b, relation=relation)
            yield make_op(cls, y, a=in_16_bits(a), b=in_16_bits(b), relation=relation)
        for number, relation in enumerate(relations):
            a, b = (value(name, (3, 7), 0.05, ZERO_POINTS[number % 4]) for name in "ab")
            yield make_op(cls, y, a=a, b=b, relation=relation)
            yield make_op(cls, y, a=in_16_bits(a), b=in_16_bits(b), relation=relation)
            dtype = (DType.INT32, DType.BOOL)[number % 2]
            a, b = (Value(name, TensorType(shape, dtype)) for name, shape in (("a", (2, 5)), ("b", (5,))))
            yield make_op(cls, y, a=a, b=b, relation=relation)


@lru_cache(maxsize=64)
def _sort_keys(a: PerTensor, b: PerTensor, arithmetic: Arithmetic) -> tuple[Keys, Keys]:
    is_tflite = arithmetic is Arithmetic.TFLITE
    both = [*map(_litert_scaled_levels, (a, b))] if is_tflite else _levels_in_common_unit(a, b)
    ranks = {number: rank for rank, number in enumerate(sorted({*both[0], *both[1]}))}
    first, second = (np.array([ranks[n] for n in numbers], np.uint16) for numbers in both)
    return first, second


def _levels_in_common_unit(a: PerTensor, b: PerTensor) -> list[list[int]]:
    """Returns the real values of the levels as integer multiples of a common unit, which any two float32 scales
    have."""
    (a_part, a_whole), (b_part, b_whole) = (q.scale.as_integer_ratio() for q in (a, b))
    factors = a_part * b_whole, b_part * a_whole
    return [
        [(level - q.zero_point) * factor for level in EVERY_LEVEL]
        for q, factor in zip((a, b), factors, strict=True)
    ]


def _litert_scaled_levels(q: PerTensor) -> list[int]:
    if q.scale >= 1:
        raise ValueError(f"LiteRT compares operands whose scales are below 1, not {q.scale:.6g}")
    m = numerics.encode_multiplier(q.scale)
    levels = (np.array(EVERY_LEVEL, np.int64) - q.zero_point) << LEFT_SHIFT
    scaled: list[int] = numerics.requantize(levels, m.mantissa, m.shift).tolist()
    return scaled


@op("where", quantization=Quantization.SHARED)
class Where(RowWise):
    """Selects `a` where the condition is true, else `b`."""

    takes_int16 = True

    condition: Value = operand()
    a: Value = operand()
    b: Value = operand()

    @property
    def is_identity(self) -> bool:
        return self.a is self.b and self.a.type == self.y.type

    def infer(self) -> TensorType:
        shapes = [v.shape for v in (self.condition, self.a, self.b)]
        try:
            shape = tuple(np.broadcast_shapes(*shapes))
        except ValueError:
            listed = ", ".join(str(list(shape)) for shape in shapes)
            raise self.refuse("shapes are equal or broadcast", listed) from None
        return TensorType(shape, (self._values_of_same_type or (self.a,))[0].dtype)

    @property
    def _values_of_same_type(self) -> tuple[Value, ...]:
        """Without constants that are quantized already, while the other tensor is still of real numbers."""
        return tuple(v for v in (self.a, self.b) if not (v.is_constant and v.is_quantized))

    def check(self) -> None:
        require_dtype(self, self.condition, DType.BOOL)
        if len({v.dtype for v in self._values_of_same_type}) > 1:
            raise self.refuse("a and b have one type", f"{self.a.dtype.value} and {self.b.dtype.value}")
        if self.y.dtype in (DType.INT8, DType.INT16):
            require_same_quant(self, self.a, self.b, self.y)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return np.where(operands[0], operands[1], operands[2])

    @classmethod
    def examples(cls) -> Iterator[Op]:
        cases: tuple[tuple[Shape, Shape, Shape], ...] = (
            ((2, 3, 5, 7), (2, 3, 5, 7), (2, 3, 5, 7)),
            ((1, 3, 5, 1), (2, 3, 5, 8), (1,)),
            ((5, 9), (1,), (1,)),
            ((1,), (2, 1, 9), (3, 1)),
            ((7, 1), (1, 5), (7, 5)),
        )
        for number, (condition, a, b) in enumerate(cases):
            zero_point = ZERO_POINTS[number % 4]
            operands = {"a": value("a", a, 0.1, zero_point), "b": value("b", b, 0.1, zero_point)}
            yield make_op(
                cls, value("y", (), 0.1, zero_point), condition=_boolean_example(condition), **operands
            )
            wide = {name: in_16_bits(v) for name, v in operands.items()}
            yield make_op(cls, in_16_bits(value("y", (), 0.1)), condition=_boolean_example(condition), **wide)
        branches = {name: Value(name, TensorType((3, 5), DType.INT32)) for name in "ab"}
        yield make_op(
            cls, Value("y", TensorType((), DType.INT32)), condition=_boolean_example((5,)), **branches
        )


def _boolean_example(shape: Shape) -> Value:
    return Value("condition", TensorType(shape, DType.BOOL))


class ArgExtremum(Op):
    """The base class of argmax and argmin: int32 positions, the first of equal values."""

    takes_int16 = True

    x: Value = operand()
    y: Value = result()
    axis: int = 0
    keepdims: bool = False
    is_identity = False
    find: ClassVar[Callable[..., Any]]
    """Returns the positions along an axis."""

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        found = type(self).find(operands[0], axis=self.axis, keepdims=self.keepdims)
        return np.asarray(found).astype(np.int32)

    def access(self, operand: Value) -> Access:
        return reduction_access(operand, (self.axis,), self.keepdims, "it looks through them all")

    def infer(self) -> TensorType:
        return TensorType(reduced_shape(self.x.shape, (self.axis,), self.keepdims), DType.INT32)

    def check(self) -> None:
        if not 0 <= self.axis < self.x.type.rank or not self.x.shape[self.axis]:
            raise self.refuse("an axis of the operand, which is not empty", f"{self.axis} of {self.x.shape}")

    @classmethod
    def examples(cls) -> Iterator[Op]:
        cases: tuple[tuple[Shape, int, bool], ...] = (
            ((2, 3, 5, 7), 3, False),
            ((1, 5, 3, 8), 1, True),
            ((2, 7, 5, 9), 2, False),
            ((11,), 0, True),
            ((3, 300), 1, False),
            ((1, 1, 3, 1), 3, False),
        )
        for number, (shape, axis, keepdims) in enumerate(cases):
            x = value("x", shape, 0.1, ZERO_POINTS[number % 4])
            y = Value("y", TensorType((), DType.INT32))
            yield make_op(cls, y, x=x, axis=axis, keepdims=keepdims)
            yield make_op(cls, y, x=in_16_bits(x), axis=axis, keepdims=keepdims)


@op("arg_max")
class ArgMax(ArgExtremum):
    """Returns the position of the largest value along an axis as int32; of equal values the first."""

    find = staticmethod(np.argmax)


@op("arg_min")
class ArgMin(ArgExtremum):
    """Returns the position of the smallest value along an axis as int32; of equal values the first."""

    find = staticmethod(np.argmin)


class TopK(Unary):
    """The base class of top-k along the last axis, in order; of equal values the one in front comes first."""

    takes_int16 = True

    k: int = 1
    largest: bool = True
    is_identity = False
    across_last = "it puts them in order"

    @property
    def result_dtype(self) -> DType:
        """The element type of the result."""
        raise NotImplementedError

    def infer(self) -> TensorType:
        return TensorType((*self.x.shape[:-1], self.k), self.result_dtype)

    def check(self) -> None:
        most = self.x.shape[-1] if self.x.shape else 0
        if not 1 <= self.k <= most:
            raise self.refuse(f"k is from 1 to {most}, the size of the last axis", self.k)

    def order(self, x: Array) -> Array:
        """Returns the positions of the `k` most extreme values."""
        ranked = x.astype(np.int64) * (-1 if self.largest else 1)
        return np.argsort(ranked, axis=-1, kind="stable")[..., : self.k].astype(np.int32)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        for number, (shape, k) in enumerate(
            (((2, 3, 5, 7), 3), ((1, 10), 5), ((3, 9), 9), ((300,), 1), ((2, 1), 1))
        ):
            x = value("x", shape, 0.1, ZERO_POINTS[number % 4])
            for source in (x, in_16_bits(x)):
                y = cls.example_result(source)
                yield make_op(cls, y, x=source, k=k, largest=number % 3 != 2)

    @classmethod
    def example_result(cls, x: Value) -> Value:
        """Returns the result value of an example, with an inferred shape."""
        raise NotImplementedError


@op("top_values", quantization=Quantization.SHARED)
class TopValues(TopK):
    """Returns the `k` largest (or smallest) values of the last axis, the most extreme first."""

    @property
    def result_dtype(self) -> DType:
        return self.x.dtype

    def check(self) -> None:
        super().check()
        if self.x.dtype in (DType.INT8, DType.INT16):
            require_same_quant(self, self.x, self.y)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return np.take_along_axis(operands[0], self.order(operands[0]).astype(np.int64), axis=-1)

    @classmethod
    def example_result(cls, x: Value) -> Value:
        return x.like("y", shape=())


@op("top_places")
class TopPlaces(TopK):
    """Returns the positions of the `k` largest (or smallest) values of the last axis as int32; equal values keep
    their order."""

    @property
    def result_dtype(self) -> DType:
        return DType.INT32

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return self.order(operands[0])

    @classmethod
    def example_result(cls, x: Value) -> Value:
        return Value("y", TensorType((), DType.INT32))
