# SPDX-License-Identifier: Apache-2.0
"""Comparisons, choices, and what is looked up by numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.fx import Node

from pillion.importers.torch.layout import Builder, Order, Placed, plain
from pillion.importers.torch.nodes import aten, constant_of, is_constant, shape_of, value_of
from pillion.importers.torch.rewrite.choosing import top_places, top_values
from pillion.importers.torch.rewrite.indexing import bagged, gather_last
from pillion.importers.torch.rewrite.masked_scores import masked_scores
from pillion.importers.torch.rewrite.spelling import real_bytes, real_numbers, widened
from pillion.importers.torch.rewrite.whole_numbers import FITTING, whole
from pillion.importers.torch.rows.elementwise import binary, in_one_order
from pillion.importers.torch.rows.quantization import row
from pillion.importers.torch.rows.table import Lowering, lowers, refuse, want_constant
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, constant
from pillion.ops import (
    ArgMax,
    ArgMin,
    Bag,
    Calculation,
    Cast,
    Compare,
    Dequantize,
    Gather,
    Relation,
    Requantize,
    TopPlaces,
    TopValues,
    Where,
    Whole,
)

MOST_SORTED = 2**20
"""Comparisons of one sort: each place that is asked for is looked for among all."""

RELATIONS = {
    aten.lt.Tensor: Relation.LESS,
    aten.le.Tensor: Relation.LESS_EQUAL,
    aten.eq.Tensor: Relation.EQUAL,
    aten.ne.Tensor: Relation.NOT_EQUAL,
    aten.ge.Tensor: Relation.GREATER_EQUAL,
    aten.gt.Tensor: Relation.GREATER,
}


def _comparing(relation: Relation) -> Lowering:
    return lambda b, first, second: binary(b, Compare, first, second, relation=relation)


for _target, _relation in RELATIONS.items():
    lowers(_target, quantized=row(Compare, operands=(0, 1), numbers=True))(_comparing(_relation))


def _fits(node: Node) -> str:
    held = [constant_of(operand) for operand in node.args[:2]]
    ends = [int(end) for v in held if v is not None and v.numel() for end in (v.min(), v.max())]
    beyond = next((end for end in ends if not -FITTING <= end < FITTING), None)
    return "" if beyond is None else f"whole numbers have 32 bits, and {beyond} has more"


@lowers(whole, quantized=row(Whole, operands=(0, 1), numbers=True, refusal=_fits))
def calculate(b: Builder, first: Placed, second: Placed, calculation: str) -> Placed:
    """Computes with whole numbers."""
    return binary(b, Whole, first, second, calculation=Calculation(calculation))


@lowers(aten.where.self, quantized=row(Where, operands=(1, 2), numbers=True))
def where(b: Builder, condition: Placed, first: Placed, second: Placed) -> Placed:
    """Takes elements of one tensor or the other, as a third one says."""
    (flags, left, right), order = in_one_order(b, condition, first, second)
    quant = left.type.quant
    if not (left.is_constant and right.is_constant and isinstance(quant, PerTensor)):
        return Placed(b.emit(Where, condition=flags, a=left, b=right), order)
    held: dict[str, Any] = {"condition": flags, "a": left, "b": right}
    integers = b.emit(Where, dtype=DType.INT8, quant=quant, name=f"{b.hint}_i8", **held)
    return Placed(b.emit(Dequantize, x=integers), order)


@lowers(masked_scores, quantized=row(Where, numbers=True))
def masked(b: Builder, scores: Placed, mask: Placed, dim: int, where: bool) -> Placed:
    """Gives the lowest level where a mask takes scores out of a softmax."""
    known = next((op for op in reversed(b.ops) if isinstance(op, Dequantize) and op.y is scores.value), None)
    if known is None:
        raise refuse(
            "scores that are masked stay in float",
            "they are quantized",
            b.node.name,
            "compile the float model: pillion quantizes it",
        )
    (flags, kept), order = in_one_order(b, mask, scores)
    lowest = b.constant(constant(f"{b.hint}_lowest", np.int8(-128), known.x.type.quant))
    choice = {"a": lowest, "b": kept} if where else {"a": kept, "b": lowest}
    return Placed(b.emit(Where, condition=flags, a=choice["a"], b=choice["b"]), order)


def _placing(cls: type[Op]) -> Lowering:
    def lower(b: Builder, x: Placed, dim: int, keepdim: bool = False) -> Placed:
        axis = x.axis(dim)
        y = b.emit(cls, x=x.value, axis=axis, keepdims=keepdim)
        return x.with_value(y) if keepdim else Placed(y, _without(x.order, dim % x.rank))

    return lower


def _without(order: Order, gone: int) -> Order:
    return tuple(axis - (axis > gone) for axis in order if axis != gone)


def _of_reals(node: Node) -> str:
    operand: Any = node.args[0]
    held = value_of(operand)
    return "" if held.is_floating_point() else f"its operand is {held.dtype}; .float() makes it real"


lowers(aten.argmax.default, quantized=row(ArgMax, numbers=True, refusal=_of_reals))(_placing(ArgMax))
lowers(aten.argmin.default, quantized=row(ArgMin, numbers=True, refusal=_of_reals))(_placing(ArgMin))


def _few(node: Node) -> str:
    source: Any = node.args[0]
    size, k = shape_of(source)[-1], int(node.args[1])  # type: ignore[arg-type]  # an int
    if size * k > MOST_SORTED:
        return f"{k} of {size} are looked for: {size * k} comparisons for each row, at most {MOST_SORTED}"
    return _of_reals(node)


def _topping(cls: type[Op]) -> Lowering:
    def lower(b: Builder, x: Placed, k: int, largest: bool) -> Placed:
        order = (*(axis for axis in x.order if axis != x.rank - 1), x.rank - 1)
        return Placed(b.emit(cls, x=b.arrange(x, order), k=k, largest=largest), order)

    return lower


lowers(top_values, quantized=row(TopValues, refusal=_few))(_topping(TopValues))
lowers(top_places, quantized=row(TopPlaces, numbers=True, refusal=_few))(_topping(TopPlaces))


def _taken(b: Builder, x: Placed, indices: Placed, axis: int, batch: int, order: Order) -> Placed:
    """Takes slices by number. Those of a constant that is quantized already are integers at once."""
    value, numbers = x.value, indices.value
    fields: dict[str, Any] = {"x": value, "indices": numbers, "axis": axis, "batch": batch}
    if not (value.is_constant and isinstance(value.type.quant, PerTensor)):
        return Placed(b.emit(Gather, **fields), order)
    integers = b.emit(Gather, dtype=DType.INT8, quant=value.type.quant, name=f"{b.hint}_i8", **fields)
    return Placed(b.emit(Dequantize, x=integers), order)


@lowers(aten.index_select.default, quantized=row(Gather, numbers=True))
def index_select(b: Builder, x: Placed, dim: int, index: Placed) -> Placed:
    """Takes slices along one axis by their numbers."""
    return _taken(b, x, index, x.axis(dim), 0, x.order)


@lowers(aten.embedding.default, quantized=row(Gather, numbers=True))
def embedding(b: Builder, weight: Placed, indices: Placed, *_: Any) -> Placed:
    """Looks rows up in a table by their numbers."""
    order = (*indices.order, indices.rank)
    return _taken(b, weight, indices, 0, 0, order)


def _computed_table(node: Node) -> str:
    return "" if is_constant(node.args[0]) else "its table is computed from the input"


@lowers(bagged, quantized=row(Bag, operands=(), weight=0, axis=0, numbers=True, refusal=_computed_table))
def bag(b: Builder, weight: Placed, words: Placed, mean: bool) -> Placed:
    """Adds rows of a table by their numbers, those along the last axis."""
    want_constant("bags", "table", weight)
    return plain(b.emit(Bag, table=b.plain(weight), indices=b.plain(words), mean=mean))


@lowers(gather_last, quantized=row(Gather, numbers=True))
def gather(b: Builder, x: Placed, places: Placed) -> Placed:
    """Takes elements of the last axis, of each row those that are its own."""
    last = x.rank - 1
    order = (*(axis for axis in x.order if axis != last), last)
    lain = Placed(b.arrange(x, order), order)
    return _taken(b, lain, Placed(b.arrange(places, order), order), last, last, order)


def _of_numbers(node: Node) -> str:
    source: Any = node.args[0]
    return f"it rounds real numbers to {value_of(node).dtype}" if value_of(source).is_floating_point() else ""


@lowers(real_bytes, quantized=row(Requantize, fixed=(1.0, -128), numbers=True))
def bytes_as_reals(b: Builder, x: Placed) -> Placed:
    """Gives an image of bytes as real numbers: they are quantized already, in steps of 1."""
    return x.with_value(b.emit(Dequantize, x=x.value))


@lowers(real_numbers, quantized=row(Requantize, fixed=(1.0, 0), numbers=True))
def numbers_as_reals(b: Builder, x: Placed) -> Placed:
    """Gives an input of 8 bits as real numbers: they are quantized already, in steps of 1."""
    return x.with_value(b.emit(Dequantize, x=x.value))


@lowers(widened, quantized=row(Cast, numbers=True))
def widen(b: Builder, x: Placed) -> Placed:
    """Gives an input of few bits in 32."""
    return x.with_value(b.emit(Cast, x=x.value, to=DType.INT32))


@lowers(aten._to_copy.default, quantized=row(Cast, numbers=True, refusal=_of_numbers))
def cast(b: Builder, x: Placed, *, dtype: torch.dtype) -> Placed:
    """Gives whole numbers another type."""
    to = DType.FLOAT32 if dtype.is_floating_point else DType.BOOL if dtype == torch.bool else DType.INT32
    return x if to is x.value.dtype else x.with_value(b.emit(Cast, x=x.value, to=to))
