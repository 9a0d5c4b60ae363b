# SPDX-License-Identifier: Apache-2.0
"""The reading of products of matrices."""

from __future__ import annotations

from pillion.importers.tflite.model import ReadOperator
from pillion.importers.tflite.movement import reshaped
from pillion.importers.tflite.operands import int8_only
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ops.matmul import BatchMatmul
from pillion.ops.movement import Reshape
from pillion.schemas import tflite


def batch_matmul(call: ReadOperator) -> list[Op]:
    """Reads a product of matrices; all axes before the last two are one batch."""
    int8_only(call, 2)
    options, y = call.options_as(tflite.BatchMatMulOptions), call.result
    made = [_as_batch(call, call.operand(number)) for number in (0, 1)]
    (before_a, a), (before_b, b) = made
    if y.type.rank < 2 or {v.shape[:-2] for v in (call.operand(0), call.operand(1))} != {y.shape[:-2]}:
        raise call.refuse("operands and result have the same batches", [call.operand(0), call.operand(1), y])
    shape = (a.shape[0], *y.shape[-2:])
    product = y if y.shape == shape else call.intermediate("product", shape, y)
    op = BatchMatmul(a=a, b=b, y=product, adj_x=options.adj_x, adj_y=options.adj_y, source=call.source)
    return [
        *before_a,
        *before_b,
        op,
        *([] if product is y else [Reshape(x=product, y=y, source=call.source)]),
    ]


def _as_batch(call: ReadOperator, x: Value) -> tuple[list[Op], Value]:
    if x.type.rank < 2:
        raise call.refuse("a matrix has two axes", repr(x))
    batches = x.type.elements // (x.shape[-2] * x.shape[-1])
    return reshaped(call, x, (batches, *x.shape[-2:]))
