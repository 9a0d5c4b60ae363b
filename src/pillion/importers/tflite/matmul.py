# SPDX-License-Identifier: Apache-2.0
"""Reads matrix products."""

from __future__ import annotations

import math

import numpy as np

from pillion.codecs.tflite.operands import require_int8
from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.importers.tflite.movement import reshaped
from pillion.ir.op import Op
from pillion.ir.types import Shape, Value, constant
from pillion.ops.indexing import Gather
from pillion.ops.matmul import BatchMatmul
from pillion.ops.movement import Reshape
from pillion.schemas import tflite


def batch_matmul(call: ReadOperator) -> list[Op]:
    """Reads a matrix product; all axes before the last two are one batch."""
    require_int8(call, 2)
    options, y = call.options_as(tflite.BatchMatMulOptions), call.result
    outer = _batches(call, y)
    made = [_as_batch(call, call.operand(number), outer) for number in (0, 1)]
    (before_a, a), (before_b, b) = made
    shape = (a.shape[0], *y.shape[-2:])
    product = y if y.shape == shape else call.intermediate("product", shape, y)
    op = BatchMatmul(a=a, b=b, y=product, adj_x=options.adj_x, adj_y=options.adj_y, source=call.source)
    return [
        *before_a,
        *before_b,
        op,
        *([] if product is y else [Reshape(x=product, y=y, source=call.source)]),
    ]


def _batches(call: ReadOperator, y: Value) -> Shape:
    """Returns the batch axes of the result, to which those of both operands are broadcast."""
    values = call.operand(0), call.operand(1), y
    if min(v.type.rank for v in values) < 2:
        raise call.refuse("a matrix has two axes", list(values))
    try:
        outer = np.broadcast_shapes(values[0].shape[:-2], values[1].shape[:-2])
    except ValueError:
        outer = ()
    if outer != y.shape[:-2]:
        raise call.refuse(
            "the result has the batches of both operands, or those to which they are broadcast", list(values)
        )
    return outer


def _as_batch(call: ReadOperator, x: Value, outer: Shape) -> tuple[list[Op], Value]:
    """Returns an operand with a single batch axis, broadcast to the result's batches."""
    own = x.shape[:-2]
    before, flat = reshaped(call, x, (math.prod(own), *x.shape[-2:]))
    if math.prod(own) == math.prod(outer):
        return before, flat
    numbers = np.broadcast_to(np.arange(math.prod(own), dtype=np.int32).reshape(own), outer).reshape(-1)
    held = constant(call.fresh(f"{x.name}/batches"), numbers)
    many = call.intermediate("batches", (len(numbers), *x.shape[-2:]), x)
    return [*before, Gather(x=flat, indices=held, y=many, axis=0, source=call.source)], many
