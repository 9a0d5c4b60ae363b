# SPDX-License-Identifier: Apache-2.0
"""How comparisons, choices and what is looked up by numbers get their operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.attributes import attributes
from fuzz.grow import Grower, Unfit
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, Shape, TensorType, Value, constant_value
from pillion.ops import (
    ArgMax,
    ArgMin,
    Cast,
    Compare,
    EmbeddingBag,
    Gather,
    IntegerArithmetic,
    Relation,
    Requantize,
    TopPlaces,
    TopValues,
)
from pillion.ops.example_values import conv_weights


def flags(grower: Grower, shape: Shape) -> Value:
    """Booleans of a shape: an input, or what a comparison answers."""
    if grower.choices.one_in(3):
        return grower.source(Value(grower.name("flags"), TensorType(shape, DType.BOOL)))
    fitting = [v for v in grower.values if v.shape == shape]
    a = grower.choices.latest(fitting) if fitting else grower.input(shape)
    b = grower.constant((1,), grower.quant()) if grower.choices.one_in(2) else grower.input(shape)
    relation = grower.choices.pick(tuple(Relation))
    return grower.put(Compare, DType.BOOL, None, a=a, b=b, relation=relation)


def words(grower: Grower, shape: Shape) -> Value:
    """Whole numbers of a shape: an input, a constant, or the places of something."""
    if grower.choices.one_in(2):
        return grower.source(Value(grower.name("words"), TensorType(shape, DType.INT32)))
    rng = np.random.default_rng(grower.choices.integer(0, 999))
    return constant_value(grower.name("numbers"), rng.integers(-2, 12, shape).astype(np.int32))


def place(grower: Grower, cls: type[ArgMax]) -> Value:
    x = grower.held()
    if x.type.rank < 1:
        raise Unfit
    return grower.put(cls, DType.INT32, None, x=x, **attributes(cls, grower.choices, x.shape))


def top(grower: Grower, cls: type[TopValues] | type[TopPlaces]) -> Value:
    x = grower.held()
    if x.type.rank < 1:
        raise Unfit
    dtype, quant = (DType.INT8, x.type.quant) if cls is TopValues else (DType.INT32, None)
    return grower.put(cls, dtype, quant, x=x, **attributes(cls, grower.choices, x.shape))


def gathered(grower: Grower, cls: type[Gather]) -> Value:
    x = grower.held()
    if x.type.rank < 1:
        raise Unfit
    found = attributes(cls, grower.choices, x.shape)
    found["axis"] = max(found["axis"], found["batch"])
    numbers = words(grower, (*x.shape[: found["batch"]], grower.choices.integer(1, 5)))
    return grower.put(cls, DType.INT8, x.type.quant, x=x, indices=numbers, **found)


def bag(grower: Grower, cls: type[EmbeddingBag]) -> Value:
    """A constant table, of few or many rows."""
    rows, elements = grower.choices.pick((1, 2, 11, 40)), grower.choices.pick((1, 7, 8, 9, 16, 33))
    table = conv_weights((rows, elements), 0, grower.choices.integer(0, 99))
    table = Value(grower.name("table"), table.type, table.data)
    shape, count = grower.shape()[:-1], grower.choices.integer(1, 9)
    found = attributes(cls, grower.choices, ())
    numbers = words(grower, shape if shape and found["is_lookup"] else (*shape, count))
    return grower.put(cls, DType.INT8, grower.quant(), table=table, indices=numbers, **found)


def cast(grower: Grower, cls: type[Cast]) -> Value:
    found: dict[str, Any] = attributes(cls, grower.choices, ())
    shape = grower.shape()
    x = few_bits(grower, shape) if grower.choices.one_in(2) else flags(grower, shape)
    return grower.put(cls, found["to"], None, x=x, **found)


def few_bits(grower: Grower, shape: Shape) -> Value:
    """Whole numbers of 8 or 16 bits that a program is given."""
    dtype = DType.INT8 if grower.choices.one_in(2) else DType.INT16
    means = PerTensor(1.0) if dtype is DType.INT8 else None
    return grower.source(Value(grower.name("few_bits"), TensorType(shape, dtype, means)))


def calculated(grower: Grower, cls: type[IntegerArithmetic]) -> Value:
    """Of two tensors of whole numbers, one of which may repeat."""
    shape = grower.shape()
    a = grower.source(Value(grower.name("words"), TensorType(shape, DType.INT32)))
    b = words(grower, shape if grower.choices.one_in(2) else shape[-1:])
    return grower.put(cls, DType.INT32, None, a=a, b=b, **attributes(cls, grower.choices, shape))


def rescaled(grower: Grower, cls: type[Requantize]) -> Value:
    """int8 in another scale; or from uint8, which is an input, or made and read again."""
    if grower.choices.one_in(2):
        x = grower.held()
        return grower.put(cls, DType.INT8, grower.own_quant(x), x=x, to=DType.INT8)
    if grower.choices.one_in(2):
        quant = unsigned(grower.quant())
        x = grower.source(Value(grower.name("bytes"), TensorType(grower.shape(), DType.UINT8, quant)))
    else:
        x = grower.held()
        x = grower.put(cls, DType.UINT8, unsigned(grower.own_quant(x)), x=x, to=DType.UINT8)
    quant = PerTensor(x.scale, x.zero_point - 128) if grower.choices.one_in(2) else grower.own_quant(x)
    return grower.put(cls, DType.INT8, quant, x=x, to=DType.INT8)


def unsigned(quant: PerTensor) -> PerTensor:
    return PerTensor(quant.scale, quant.zero_point + 128)


RECIPES: dict[type[Op], Any] = {
    ArgMax: place,
    ArgMin: place,
    TopValues: top,
    TopPlaces: top,
    Gather: gathered,
    EmbeddingBag: bag,
    Cast: cast,
    IntegerArithmetic: calculated,
    Requantize: rescaled,
}
