# SPDX-License-Identifier: Apache-2.0
"""Folds operators whose operands are all constant, such as shapes, indices and masks, so that others read
constants."""

from __future__ import annotations

from collections.abc import Sequence

from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, Value, constant_value
from pillion.ops.scan import Scan

MOST_BYTES = 2**16
"""The largest folded result that exceeds the size of its operands, in bytes."""


def fold_constant_ops(call: ReadOperator, ops: list[Op]) -> list[Op]:
    """Returns an operator's ops; none if all its results are folded to constants."""
    results = {y.name: (y, data) for y, data in (_constant_results(ops) or {}).items()}
    if not results or not all(y.name in results for y in call.outputs):
        return ops
    for y, data in (results[y.name] for y in call.outputs):
        call.bind(y, constant_value(y.name, data, y.type.quant))
    return []


def _constant_results(ops: Sequence[Op]) -> dict[Value, Array] | None:
    """Returns the result of each op, or None if an operand is not constant or a result is too large."""
    results: dict[Value, Array] = {}
    for op in ops:
        is_known = all(v.is_constant or v in results for v in op.operands)
        operand_bytes = sum(v.type.size_bytes for v in op.operands)
        result_bytes = sum(y.type.size_bytes for y in op.results)
        if (
            not is_known
            or isinstance(op, Scan)
            or len(op.results) != 1
            or result_bytes > max(operand_bytes, MOST_BYTES)
        ):
            return None
        results |= op.compute(Arithmetic.TFLITE, results)
    return results
