# SPDX-License-Identifier: Apache-2.0
"""Reads comparisons, selections and lookups by index."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pillion.codecs.tflite.geometry import axis_of, single_axis
from pillion.codecs.tflite.operands import INT8_OR_16, require_one_of
from pillion.codecs.tflite.read_operator import Reading, ReadOperator
from pillion.importers.tflite.op_chain import OpChain, as_constant
from pillion.ir.op import Op
from pillion.ir.size_limits import LARGEST
from pillion.ir.types import DType, TensorType, Value, constant_value
from pillion.ops.compare_select import ArgMax, ArgMin, Compare, Relation, TopPlaces, TopValues, Where
from pillion.ops.indexing import SOURCES, Cast, Gather
from pillion.ops.movement import Reshape
from pillion.schemas import tflite


def logical_not(call: ReadOperator) -> list[Op]:
    """Reads a negation as a comparison with false."""
    x = call.operand(0)
    require_one_of(call, x, DType.BOOL)
    no = constant_value(
        call.fresh(f"{call.result.name}/false"), np.zeros((1,) * min(x.type.rank, 1), np.bool_)
    )
    return [Compare(a=x, b=no, y=call.result, relation=Relation.EQUAL, source=call.source)]


def select(call: ReadOperator) -> list[Op]:
    """Reads a selection. SELECT accepts a condition per row: one axis, while the tensors have more."""
    condition, a, b, y = call.operand(0), call.operand(1), call.operand(2), call.result
    require_one_of(call, condition, DType.BOOL)
    for value in (a, b):
        require_one_of(call, value, DType.INT8, DType.INT16, DType.INT32, DType.BOOL)
    chain = OpChain(call)
    if call.code == "SELECT" and condition.type.rank == 1 and a.type.rank > 1:
        column = (*condition.shape, *(1,) * (a.type.rank - 1))
        if condition.is_constant:
            values = condition.constant.reshape(column)
            condition = constant_value(call.fresh(f"{y.name}/condition"), values)
        else:
            condition = chain.reshape(condition, column, "condition")
    return [*chain.ops, Where(condition=condition, a=a, b=b, y=y, source=call.source)]


def arg_extremum(cls: type[Op]) -> Reading:
    """Returns the reader of an arg-extremum."""

    def row(call: ReadOperator) -> list[Op]:
        x = call.operand(0)
        require_one_of(call, x, DType.INT8)
        axis = single_axis(call, call.integers(1), x.type.rank)
        fields: dict[str, Any] = {"x": x, "y": call.result, "axis": axis, "source": call.source}
        return [cls(**fields)]

    return row


def top_k(call: ReadOperator) -> list[Op]:
    """Reads the k largest values and their indices."""
    x, k = call.operand(0), call.integers(1)
    require_one_of(call, x, *INT8_OR_16)
    if len(call.outputs) != 2 or len(k) != 1:
        raise call.refuse("there are values and places, and one k", f"{len(call.outputs)} results, k {k}")
    values, indices = call.outputs
    return [
        TopValues(x=x, y=values, k=k[0], source=call.source),
        TopPlaces(x=x, y=indices, k=k[0], source=call.source),
    ]


def gather(call: ReadOperator) -> list[Op]:
    """Reads slices by index."""
    options = call.options_as(tflite.GatherOptions)
    x, indices = call.operand(0), call.operand(1)
    return [_gather_op(call, x, indices, options.axis, options.batch_dims)]


def _gather_op(call: ReadOperator, x: Value, indices: Value, axis: int, batch: int) -> Op:
    require_one_of(call, x, *INT8_OR_16, DType.INT32, DType.BOOL, DType.FLOAT32)
    require_one_of(call, indices, DType.INT32)
    axis, batch = axis_of(call, axis, x.type.rank), batch % max(indices.type.rank, 1) if batch < 0 else batch
    known = indices.constant.astype(np.int64) if indices.is_constant else np.zeros(1, np.int64)
    if known.min(initial=0) < 0 or known.max(initial=0) >= x.shape[axis]:
        raise call.refuse(f"numbers of slices are from 0 to {x.shape[axis] - 1}", repr(indices))
    return Gather(x=x, indices=indices, y=call.result, axis=axis, batch=batch, source=call.source)


def embedding_lookup(call: ReadOperator) -> list[Op]:
    """Reads rows of a table (second operand) by index (first operand)."""
    table = call.operand(1)
    require_one_of(call, table, *INT8_OR_16)
    if call.result.type.quant != table.type.quant:
        raise call.refuse("rows have the scale of their table", repr(call.result))
    return [_gather_op(call, table, call.operand(0), 0, 0)]


def cast(call: ReadOperator) -> list[Op]:
    """Reads a change of the element type; without a change, a reshape."""
    x, y = call.operand(0), call.result
    if x.dtype is not DType.INT8:  # the op itself checks int8
        require_one_of(call, x, *SOURCES)
    if x.dtype is y.dtype:
        return [Reshape(x=x, y=y, source=call.source)]
    return [Cast(x=x, y=y, to=y.dtype, source=call.source)]


def tile(call: ReadOperator) -> list[Op]:
    """Reads a repetition as concatenations of the operand with itself, axis by axis."""
    x, counts = call.operand(0), call.integers(1)
    if len(counts) != x.type.rank or min(counts, default=1) < 1:
        raise call.refuse(f"there are {x.type.rank} counts, each at least 1", counts)
    return _tile_by_concat(OpChain(call), x, counts)


def broadcast_to(call: ReadOperator) -> list[Op]:
    """Reads a broadcast to the result's shape. LiteRT's reference kernels lack this operator."""
    x, y = call.operand(0), call.result
    call.require_shape(1, y.shape)
    same = x.dtype is y.dtype and x.type.quant == y.type.quant
    shape = (1,) * (y.type.rank - x.type.rank) + x.shape
    fits = len(shape) == y.type.rank and all(a in (1, b) for a, b in zip(shape, y.shape, strict=True))
    if not fits or not same:
        raise call.refuse("a result of the same type, in which axes of 1 are larger", f"{x!r} to {y!r}")
    chain = OpChain(call)
    return _tile_by_concat(
        chain, chain.reshape(x, shape), [b // a for a, b in zip(shape, y.shape, strict=True)]
    )


def _tile_by_concat(chain: OpChain, x: Value, counts: list[int]) -> list[Op]:
    """Returns concatenations of a tensor with itself."""
    call, y = chain.call, chain.call.result
    if math.prod(counts) * x.type.size_bytes > LARGEST:
        raise call.refuse(f"a tensor has at most {LARGEST} bytes", f"{x!r} times {counts}")
    axes = [axis for axis, count in enumerate(counts) if count > 1]
    for axis in axes:
        x = chain.concat((x,) * counts[axis], axis, y if axis == axes[-1] else "tiled")
    if not axes:
        chain.reshape(x, x.shape, y)
    return chain.ops


def fill(call: ReadOperator) -> list[Op]:
    """Reads a tensor of one known number as a constant."""
    element, sizes, y = call.constant(1), tuple(call.integers(0)), call.result
    if min(sizes, default=1) < 1 or math.prod(sizes) * y.dtype.size_bytes > LARGEST:
        raise call.refuse(f"sizes are positive, and a tensor has at most {LARGEST} bytes", sizes)
    if element.type.elements != 1:
        raise call.refuse("there is one element", repr(element))
    if element.type.quant != y.type.quant and element.dtype is DType.INT8:
        raise call.refuse("the result has the scale of the element", repr(y))
    return as_constant(call, np.full(sizes, element.constant.reshape(())))


def one_hot(call: ReadOperator) -> list[Op]:
    """Reads a one-hot encoding as a comparison with all positions and a selection."""
    numbers, y, axis = call.operand(0), call.result, call.options_as(tflite.OneHotOptions).axis
    require_one_of(call, numbers, DType.INT32)
    depth, on, off = call.integers(1), call.constant(2), call.constant(3)
    for value in (on, off):
        require_one_of(call, value, DType.INT8, DType.INT32, DType.BOOL)
    rank = numbers.type.rank + 1
    axis = rank - 1 if axis == -1 else axis
    if (
        len(depth) != 1
        or depth[0] < 1
        or not 0 <= axis < rank
        or y.type.rank != rank
        or y.shape[axis] != depth[0]
    ):
        raise call.refuse(
            "one depth, an axis of the result, which has that size", f"{depth}, axis {axis}, {y!r}"
        )
    shape = (*numbers.shape[:axis], 1, *numbers.shape[axis:])
    chain = OpChain(call)
    column = chain.reshape(numbers, shape, "column")
    if numbers.is_constant:
        chain.ops, column = [], constant_value(column.name, numbers.constant.reshape(shape))
    positions = chain.numbers(np.arange(depth[0]).reshape(-1, *(1,) * (rank - 1 - axis)), "places")
    is_there = Value(call.fresh(f"{y.name}/is_there"), TensorType(y.shape, DType.BOOL))
    chain.add(Compare, is_there, y.shape, numbers, a=column, b=positions, relation=Relation.EQUAL)
    chain.add(Where, y, y.shape, y, condition=is_there, a=_as_scalar(on), b=_as_scalar(off))
    return chain.ops


def _as_scalar(value: Value) -> Value:
    """Returns a one-element constant as a scalar, because the result may have no axes."""
    return (
        value
        if value.type.rank == 0
        else constant_value(value.name, value.constant.reshape(()), value.type.quant)
    )


ROWS: dict[str, Reading] = {
    "LOGICAL_NOT": logical_not,
    "SELECT": select,
    "SELECT_V2": select,
    "ARG_MAX": arg_extremum(ArgMax),
    "ARG_MIN": arg_extremum(ArgMin),
    "TOPK_V2": top_k,
    "GATHER": gather,
    "EMBEDDING_LOOKUP": embedding_lookup,
    "CAST": cast,
    "TILE": tile,
    "BROADCAST_TO": broadcast_to,
    "FILL": fill,
    "ONE_HOT": one_hot,
}
"""The readers of this file, by operator name."""
