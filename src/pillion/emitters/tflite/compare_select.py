# SPDX-License-Identifier: Apache-2.0
"""Writes comparisons, selections and lookups by index."""

from __future__ import annotations

import numpy as np

from pillion.codecs.tflite.exact import inexact_op_error, int8_only, int8_or_16_only
from pillion.codecs.tflite.node import Node, int32_constant
from pillion.codecs.tflite.rows import require_few_axes
from pillion.ir.types import DType, TensorType, Value, constant_value
from pillion.ops.compare_select import ArgExtremum, TopK, TopPlaces, Where
from pillion.ops.indexing import Cast, Gather
from pillion.schemas import tflite
from pillion.schemas.tflite import ElementType


def where(op: Where) -> list[Node]:
    """Returns the operator of a selection."""
    require_few_axes(op, 5)
    return [Node("SELECT_V2", (op.condition, op.a, op.b), (op.y,))]


def arg_extremum(op: ArgExtremum) -> list[Node]:
    """Returns the operator of an arg-extremum, and a reshape if the axis is kept."""
    int8_only(op, op.x)
    squeezed = op.y
    if op.keepdims:
        shape = tuple(size for axis, size in enumerate(op.y.shape) if axis != op.axis)
        squeezed = Value(f"{op.name}/found", TensorType(shape, DType.INT32))
    kind = tflite.ArgMaxOptions if op.kind == "arg_max" else tflite.ArgMinOptions
    axis = int32_constant(f"{op.name}/axis", [op.axis])
    nodes = [Node(op.kind.upper(), (op.x, axis), (squeezed,), kind(output_type=ElementType.INT32))]
    if op.keepdims:
        shape_of = int32_constant(f"{op.name}/shape", op.y.shape)
        options = tflite.ReshapeOptions(new_shape=list(op.y.shape))
        nodes.append(Node("RESHAPE", (squeezed, shape_of), (op.y,), options))
    return nodes


def top_k(op: TopK) -> list[Node]:
    """Returns the operator of the k largest; one of its two results is unused."""
    int8_or_16_only(op, op.x)
    if not op.largest:
        rule = "LiteRT looks for the largest"
        raise inexact_op_error(op, rule, "the smallest", "negate the operand and look for its largest")
    indices = Value(f"{op.name}/places", TensorType(op.y.shape, DType.INT32))
    values = Value(f"{op.name}/values", TensorType(op.y.shape, op.x.dtype, op.x.type.quant))
    results = (values, op.y) if isinstance(op, TopPlaces) else (op.y, indices)
    k = constant_value(f"{op.name}/k", np.array(op.k, np.int32))
    return [Node("TOPK_V2", (op.x, k), results)]


def gather(op: Gather) -> list[Node]:
    """Returns the operator of slices by index. Constant indices are clamped, because LiteRT fails on invalid
    ones."""
    options = tflite.GatherOptions(axis=op.axis, batch_dims=op.batch)
    indices = op.indices
    if indices.is_constant:
        clipped = np.clip(indices.constant, 0, op.x.shape[op.axis] - 1).astype(np.int32)
        indices = constant_value(indices.name, clipped)
    return [Node("GATHER", (op.x, indices), (op.y,), options)]


def cast(op: Cast) -> list[Node]:
    """Returns the operator of a type conversion."""
    options = tflite.CastOptions(
        in_data_type=ElementType[op.x.dtype.name], out_data_type=ElementType[op.to.name]
    )
    return [Node("CAST", (op.x,), (op.y,), options)]
