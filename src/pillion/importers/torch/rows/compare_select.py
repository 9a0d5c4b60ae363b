# SPDX-License-Identifier: Apache-2.0
"""Rows of comparisons, selections, gathers and integer casts."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from pillion import ops
from pillion.importers.torch.fx_nodes import aten, constant_of, fake_result, is_constant, shape_of
from pillion.importers.torch.layout import Builder, LayoutValue, Order, from_logical_order
from pillion.importers.torch.rewrite.common_type import int8_to_real, uint8_to_real, widen_to_int32
from pillion.importers.torch.rewrite.compare_select import top_places, top_values
from pillion.importers.torch.rewrite.computed_masks import masked_scores
from pillion.importers.torch.rewrite.integer_arithmetic import FITTING, integer_calculation
from pillion.importers.torch.rewrite.lower_indexing import gather_last, reduce_bags
from pillion.importers.torch.rows.byte_functions import as_uint8
from pillion.importers.torch.rows.elementwise import binary, broadcast_operands
from pillion.importers.torch.rows.quantization import rule_of_op
from pillion.importers.torch.rows.table import Lowering, lowers, require_constant, unsupported_call_error
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, constant_value
from pillion.modules.boxes import NON_MAX_SUPPRESSION
from pillion.modules.label_runs import RUN_LENGTHS

MOST_SORTED = 2**20
"""Maximum comparisons per sorted row: each of the k results is searched in the integer_calculation row."""

RELATIONS = {
    aten.lt.Tensor: ops.Relation.LESS,
    aten.le.Tensor: ops.Relation.LESS_EQUAL,
    aten.eq.Tensor: ops.Relation.EQUAL,
    aten.ne.Tensor: ops.Relation.NOT_EQUAL,
    aten.ge.Tensor: ops.Relation.GREATER_EQUAL,
    aten.gt.Tensor: ops.Relation.GREATER,
}
for _target, _relation in RELATIONS.items():
    lowers(_target, quantized=rule_of_op(ops.Compare, operands=(0, 1), numbers=True))(
        partial(binary, cls=ops.Compare, relation=_relation)
    )


def _fit_refusal(node: Node) -> str:
    tensors = [constant_of(operand) for operand in node.args[:2]]
    extremes = [int(end) for v in tensors if v is not None and v.numel() for end in (v.min(), v.max())]
    beyond = next((end for end in extremes if not -FITTING <= end < FITTING), None)
    return "" if beyond is None else f"whole numbers have 32 bits, and {beyond} has more"


@lowers(
    integer_calculation,
    quantized=rule_of_op(ops.IntegerArithmetic, operands=(0, 1), numbers=True, refusal=_fit_refusal),
)
def calculate(b: Builder, first: LayoutValue, second: LayoutValue, calculation: str) -> LayoutValue:
    """Lowers integer arithmetic."""
    return binary(b, first, second, cls=ops.IntegerArithmetic, calculation=ops.Calculation(calculation))


@lowers(aten.where.self, quantized=rule_of_op(ops.Where, operands=(1, 2), numbers=True))
def where(b: Builder, condition: LayoutValue, first: LayoutValue, second: LayoutValue) -> LayoutValue:
    """Lowers an elementwise selection by a condition."""
    (flags, left, right), order = broadcast_operands(b, condition, first, second)
    quant = left.type.quant
    if not (left.is_constant and right.is_constant and isinstance(quant, PerTensor)):
        return LayoutValue(b.emit(ops.Where, condition=flags, a=left, b=right), order)
    operands: dict[str, Any] = {"condition": flags, "a": left, "b": right}
    integers = b.emit(ops.Where, dtype=DType.INT8, quant=quant, name=f"{b.hint}_i8", **operands)
    return LayoutValue(b.emit(ops.Dequantize, x=integers), order)


@lowers(masked_scores, quantized=rule_of_op(ops.Where, numbers=True))
def masked(b: Builder, scores: LayoutValue, mask: LayoutValue, dim: int, where: bool) -> LayoutValue:
    """Replaces scores that a mask removes from a softmax by the lowest level of the scores."""
    known = next(
        (op for op in reversed(b.ops) if isinstance(op, ops.Dequantize) and op.y is scores.value), None
    )
    if known is None:
        raise unsupported_call_error(
            "scores that are masked stay in float",
            "they are quantized",
            b.node.name,
            "compile the float model: pillion quantizes it",
        )
    (flags, values), order = broadcast_operands(b, mask, scores)
    lowest = b.constant(constant_value(f"{b.hint}_lowest", np.int8(-128), known.x.type.quant))
    choice = {"a": lowest, "b": values} if where else {"a": values, "b": lowest}
    return LayoutValue(b.emit(ops.Where, condition=flags, a=choice["a"], b=choice["b"]), order)


def _arg_extremum_lowering(cls: type[Op]) -> Lowering:
    def lower(b: Builder, x: LayoutValue, dim: int, keepdim: bool = False) -> LayoutValue:
        axis = x.axis(dim)
        y, gone = b.emit(cls, x=x.value, axis=axis, keepdims=keepdim), dim % x.rank
        order = tuple(axis - (axis > gone) for axis in x.order if axis != gone)
        return x.with_value(y) if keepdim else LayoutValue(y, order)

    return lower


def _reals_refusal(node: Node) -> str:
    operand: Any = node.args[0]
    fake = fake_result(operand)
    return "" if fake.is_floating_point() else f"its operand is {fake.dtype}; .float() makes it real"


for _target, _op in ((aten.argmax.default, ops.ArgMax), (aten.argmin.default, ops.ArgMin)):
    _rule = rule_of_op(_op, numbers=True, refusal=_reals_refusal)
    lowers(_target, quantized=_rule)(_arg_extremum_lowering(_op))


def _count_refusal(node: Node) -> str:
    source: Any = node.args[0]
    size, k = shape_of(source)[-1], int(node.args[1])  # type: ignore[arg-type]  # an int
    if size * k > MOST_SORTED:
        return f"{k} of {size} are looked for: {size * k} comparisons for each row, at most {MOST_SORTED}"
    return _reals_refusal(node)


def _top_k_lowering(cls: type[Op]) -> Lowering:
    def lower(b: Builder, x: LayoutValue, k: int, largest: bool) -> LayoutValue:
        order = (*(axis for axis in x.order if axis != x.rank - 1), x.rank - 1)
        return LayoutValue(b.emit(cls, x=b.arrange(x, order), k=k, largest=largest), order)

    return lower


lowers(top_values, quantized=rule_of_op(ops.TopValues, refusal=_count_refusal))(
    _top_k_lowering(ops.TopValues)
)
lowers(top_places, quantized=rule_of_op(ops.TopPlaces, numbers=True, refusal=_count_refusal))(
    _top_k_lowering(ops.TopPlaces)
)


@lowers(NON_MAX_SUPPRESSION, quantized=rule_of_op(ops.NonMaxSuppression, operands=(0, 1), numbers=True))
def suppress(
    b: Builder, boxes: LayoutValue, scores: LayoutValue, most: int, iou: float, score: float
) -> LayoutValue:
    """Lowers to the op, which has the same operands."""
    fields: dict[str, Any] = {"most": most, "iou_threshold": iou, "score_threshold": score}
    return from_logical_order(
        b.emit(ops.NonMaxSuppression, boxes=b.plain(boxes), scores=b.plain(scores), **fields)
    )


@lowers(RUN_LENGTHS, quantized=rule_of_op(ops.RunLengths, numbers=True))
def run_lengths(b: Builder, labels: LayoutValue, most: int) -> LayoutValue:
    """Lowers to the op of the same name."""
    return from_logical_order(b.emit(ops.RunLengths, x=b.plain(labels), most=most))


def _gather_slices(
    b: Builder, x: LayoutValue, indices: LayoutValue, axis: int, batch: int, order: Order
) -> LayoutValue:
    """Gathers slices by index. Quantized constants are gathered as integers."""
    value, numbers = x.value, indices.value
    fields: dict[str, Any] = {"x": value, "indices": numbers, "axis": axis, "batch": batch}
    if not (value.is_constant and isinstance(value.type.quant, PerTensor)):
        return LayoutValue(b.emit(ops.Gather, **fields), order)
    integers = b.emit(ops.Gather, dtype=DType.INT8, quant=value.type.quant, name=f"{b.hint}_i8", **fields)
    return LayoutValue(b.emit(ops.Dequantize, x=integers), order)


@lowers(aten.index_select.default, quantized=rule_of_op(ops.Gather, numbers=True))
def index_select(b: Builder, x: LayoutValue, dim: int, index: LayoutValue) -> LayoutValue:
    """Gathers slices along one axis."""
    return _gather_slices(b, x, index, x.axis(dim), 0, x.order)


@lowers(aten.embedding.default, quantized=rule_of_op(ops.Gather, numbers=True))
def embedding(b: Builder, weight: LayoutValue, indices: LayoutValue, *_: Any) -> LayoutValue:
    """Gathers rows of a table."""
    order = (*indices.order, indices.rank)
    return _gather_slices(b, weight, indices, 0, 0, order)


@lowers(
    reduce_bags,
    quantized=rule_of_op(
        ops.EmbeddingBag,
        operands=(),
        weight=0,
        axis=0,
        numbers=True,
        refusal=lambda node: "" if is_constant(node.args[0]) else "its table is computed from the input",
    ),
)
def bag(b: Builder, weight: LayoutValue, words: LayoutValue, mean: bool) -> LayoutValue:
    """Sums or averages rows of a table over the last axis of the indices."""
    require_constant("bags", "table", weight)
    return from_logical_order(
        b.emit(ops.EmbeddingBag, table=b.plain(weight), indices=b.plain(words), mean=mean)
    )


@lowers(gather_last, quantized=rule_of_op(ops.Gather, numbers=True))
def gather(b: Builder, x: LayoutValue, places: LayoutValue) -> LayoutValue:
    """Gathers elements of the last axis, with separate indices for each row."""
    last = x.rank - 1
    order = (*(axis for axis in x.order if axis != last), last)
    lain = LayoutValue(b.arrange(x, order), order)
    return _gather_slices(b, lain, LayoutValue(b.arrange(places, order), order), last, last, order)


def _numbers_refusal(node: Node) -> str:
    source: Any = node.args[0]
    is_real = fake_result(source).is_floating_point()
    return f"it rounds real numbers to {fake_result(node).dtype}" if is_real else ""


@lowers(uint8_to_real, quantized=rule_of_op(ops.Requantize, fixed=(1.0, -128), numbers=True))
@lowers(int8_to_real, quantized=rule_of_op(ops.Requantize, fixed=(1.0, 0), numbers=True))
def bytes_as_reals(b: Builder, x: LayoutValue) -> LayoutValue:
    """Lowers uint8 or int8 input to real numbers: the integers are already quantized with scale 1."""
    return x.with_value(b.emit(ops.Dequantize, x=x.value))


@lowers(widen_to_int32, quantized=rule_of_op(ops.Cast, numbers=True))
def widen(b: Builder, x: LayoutValue) -> LayoutValue:
    """Widens an 8 or 16-bit input to 32 bits."""
    return x.with_value(b.emit(ops.Cast, x=x.value, to=DType.INT32))


@lowers(aten._to_copy.default, quantized=rule_of_op(ops.Cast, numbers=True, refusal=_numbers_refusal))
def cast(b: Builder, x: LayoutValue, *, dtype: torch.dtype) -> LayoutValue:
    """Casts integers to another type."""
    x = as_uint8(b, x)
    to = DType.FLOAT32 if dtype.is_floating_point else DType.BOOL if dtype == torch.bool else DType.INT32
    return x if to is x.value.dtype else x.with_value(b.emit(ops.Cast, x=x.value, to=to))
