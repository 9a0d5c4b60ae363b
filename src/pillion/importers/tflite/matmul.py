# SPDX-License-Identifier: Apache-2.0
"""Reads matrix products."""

from __future__ import annotations

import math

import numpy as np

from pillion.codecs.tflite.geometry import levels
from pillion.codecs.tflite.operands import INT8_OR_16, require_int8
from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.importers.tflite.op_chain import OpChain
from pillion.ir.op import Op
from pillion.ir.types import Shape, Value, constant_value
from pillion.ops.matmul import BatchMatmul
from pillion.schemas import tflite
from pillion.schemas.tflite import Activation


def batch_matmul(call: ReadOperator) -> list[Op]:
    """Reads a matrix product; all axes before the last two are one batch."""
    require_int8(call, 2, INT8_OR_16)
    options, y = call.options_as(tflite.BatchMatMulOptions), call.result
    outer, chain = _batch_shape(call, y), OpChain(call)
    a, b = (_as_batch(chain, call.operand(number), outer) for number in (0, 1))
    shape = (a.shape[0], *y.shape[-2:])
    adjoint = {"adj_x": options.adj_x, "adj_y": options.adj_y, **levels(call, y, Activation.NONE)}
    product = chain.add(BatchMatmul, y if y.shape == shape else "product", shape, y, a=a, b=b, **adjoint)
    if product is not y:
        chain.reshape(product, y.shape, y)
    return chain.ops


def _batch_shape(call: ReadOperator, y: Value) -> Shape:
    """Returns the batch axes of the result; both operands are broadcast to them."""
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


def _as_batch(chain: OpChain, x: Value, outer: Shape) -> Value:
    """Returns an operand with a single batch axis, broadcast to the result's batches."""
    own = x.shape[:-2]
    flat = chain.reshape(x, (math.prod(own), *x.shape[-2:]))
    if math.prod(own) == math.prod(outer):
        return flat
    numbers = np.broadcast_to(np.arange(math.prod(own), dtype=np.int32).reshape(own), outer).reshape(-1)
    return chain.gather(flat, constant_value(chain.call.fresh(f"{x.name}/batches"), numbers), "batches")
