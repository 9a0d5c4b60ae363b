# SPDX-License-Identifier: Apache-2.0
"""Writes comparisons, selections and lookups by index."""

from __future__ import annotations

import numpy as np

from pillion.emitters.tflite.exact import int8_only, refusal
from pillion.emitters.tflite.node import Node, Writing, integers
from pillion.ir.types import DType, TensorType, Value, constant
from pillion.ops.compare_select import Compare, Place, Relation, Top, TopPlaces, Where
from pillion.ops.elementwise import Extremum
from pillion.ops.indexing import Cast, Gather
from pillion.ops.reduce import ReduceMax, ReduceMin
from pillion.schemas import tflite
from pillion.schemas.tflite import ElementType

CODES = {relation: relation.name for relation in Relation}
MOST_AXES = {"compare": 4, "where": 5}
"""The most axes along which LiteRT broadcasts."""


def require_few_axes(op: Compare | Where) -> None:
    """Raises if operands need a broadcast along more axes than LiteRT supports."""
    most, shapes = MOST_AXES[op.kind], {v.shape for v in op.operands}
    if len(shapes) > 1 and op.y.type.rank > most:
        raise refusal(op, f"LiteRT broadcasts at most {most} axes", repr(op.y), "join axes by a reshape")


def compare(op: Compare) -> list[Node]:
    """Returns the operator of a comparison. Booleans support only equality."""
    require_few_axes(op)
    if op.a.dtype is DType.INT8:
        int8_only(op, op.a, op.b)
        coarse = next((v for v in (op.a, op.b) if v.scale >= 1), None)
        if coarse is not None:
            rule = "LiteRT compares operands whose scales are below 1"
            raise refusal(op, rule, f"`{coarse.name}`: {coarse.scale:.6g}", "divide both by a number")
    elif op.a.dtype is DType.BOOL and op.relation not in (Relation.EQUAL, Relation.NOT_EQUAL):
        rule = "LiteRT compares booleans for equality"
        raise refusal(op, rule, op.relation.value, "logical_and and logical_not say the same")
    elif op.a.dtype not in (DType.BOOL, DType.INT32):
        raise refusal(op, "int8, int32 or bool is compared", repr(op.a), "quantize the model")
    return [Node(CODES[op.relation], (op.a, op.b), (op.y,))]


def where(op: Where) -> list[Node]:
    """Returns the operator of a selection."""
    require_few_axes(op)
    return [Node("SELECT_V2", (op.condition, op.a, op.b), (op.y,))]


def place(op: Place) -> list[Node]:
    """Returns the operator of an arg-extremum, and a reshape if the axis is kept."""
    int8_only(op, op.x)
    found = op.y
    if op.keepdims:
        shape = tuple(size for axis, size in enumerate(op.y.shape) if axis != op.axis)
        found = Value(f"{op.name}/found", TensorType(shape, DType.INT32))
    kind = tflite.ArgMaxOptions if op.kind == "arg_max" else tflite.ArgMinOptions
    axis = integers(f"{op.name}/axis", [op.axis])
    nodes = [Node(op.kind.upper(), (op.x, axis), (found,), kind(output_type=ElementType.INT32))]
    if op.keepdims:
        shape_of = integers(f"{op.name}/shape", op.y.shape)
        options = tflite.ReshapeOptions(new_shape=list(op.y.shape))
        nodes.append(Node("RESHAPE", (found, shape_of), (op.y,), options))
    return nodes


def top(op: Top) -> list[Node]:
    """Returns the operator of the k largest; one of its two results is unused."""
    int8_only(op, op.x)
    if not op.largest:
        rule = "LiteRT looks for the largest"
        raise refusal(op, rule, "the smallest", "negate the operand and look for its largest")
    places = Value(f"{op.name}/places", TensorType(op.y.shape, DType.INT32))
    values = Value(f"{op.name}/values", TensorType(op.y.shape, DType.INT8, op.x.type.quant))
    results = (values, op.y) if isinstance(op, TopPlaces) else (op.y, places)
    k = constant(f"{op.name}/k", np.array(op.k, np.int32))
    return [Node("TOPK_V2", (op.x, k), results)]


def gather(op: Gather) -> list[Node]:
    """Returns the operator of slices by index. Constant indices are clamped, because LiteRT fails on invalid
    ones."""
    options = tflite.GatherOptions(axis=op.axis, batch_dims=op.batch)
    indices = op.indices
    if indices.is_constant:
        held = np.clip(indices.constant, 0, op.x.shape[op.axis] - 1).astype(np.int32)
        indices = constant(indices.name, held)
    return [Node("GATHER", (op.x, indices), (op.y,), options)]


def cast(op: Cast) -> list[Node]:
    """Returns the operator of a type conversion."""
    options = tflite.CastOptions(
        in_data_type=ElementType[op.x.dtype.name], out_data_type=ElementType[op.to.name]
    )
    return [Node("CAST", (op.x,), (op.y,), options)]


LOGICAL = {
    "minimum": "LOGICAL_AND",
    "maximum": "LOGICAL_OR",
    "reduce_max": "REDUCE_ANY",
    "reduce_min": "REDUCE_ALL",
}
"""The operators of extrema of booleans."""


def or_logical(writing: Writing) -> Writing:
    """Returns a row that uses logical operators for extrema of booleans."""

    def row(op: Extremum | ReduceMax | ReduceMin) -> list[Node]:
        if op.y.dtype is not DType.BOOL:
            return writing(op)
        if isinstance(op, Extremum):
            return [Node(LOGICAL[op.kind], (op.a, op.b), (op.y,))]
        axes = integers(f"{op.name}/axes", op.axes)
        return [Node(LOGICAL[op.kind], (op.x, axes), (op.y,), tflite.ReducerOptions(keep_dims=op.keepdims))]

    return row
