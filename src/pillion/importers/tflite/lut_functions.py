# SPDX-License-Identifier: Apache-2.0
"""Reads elementwise functions that are not part of a graph's arithmetic, as LiteRT's lookup tables, or as several ops."""

from __future__ import annotations

import numpy as np

from pillion.codecs.tflite.operands import require_int8
from pillion.codecs.tflite.read_operator import Reading, ReadOperator
from pillion.codecs.tflite.rows import READERS
from pillion.importers.tflite.op_chain import OpChain
from pillion.ir.numerics import Int64Array, clamp_to_int8
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, TensorType, Value, constant_value
from pillion.ops.compare_select import Compare, Relation, Where
from pillion.ops.elementwise import Mul
from pillion.ops.lut import Lut
from pillion.ops.lut_tflite import Floats, exp32, tabulated_float32
from pillion.ops.unary_functions import Function
from pillion.schemas import tflite


def elu(call: ReadOperator) -> list[Op]:
    """Reads an ELU as LiteRT's optimized kernel computes it; the reference kernels lack it."""
    require_int8(call)
    x = call.operand(0)
    lut = Lut(x=x, y=call.result, function=Function.ELU, table=None, alpha=1.0, source=call.source)
    levels = np.arange(-128, 128, dtype=np.int64) - x.zero_point
    return [_lut_op(call, tabulated_float32(_elu)(lut, levels))]


def _elu(x: Floats) -> Floats:
    return np.where(x < 0, exp32(x) - np.float32(1), x)


def read_negation(call: ReadOperator) -> list[Op]:
    """Reads a NEG as LiteRT computes it: it negates the stored integers regardless of zero points, and keeps
    -128."""
    require_int8(call)
    bytes_ = np.arange(-128, 128, dtype=np.int64)
    return [_lut_op(call, np.where(bytes_ == -128, -128, -bytes_))]


def read_prelu(call: ReadOperator) -> list[Op]:
    """Reads a PRELU. On 16 bits, negative numbers are multiplied by a slope of int8, and others are rescaled."""
    x, slope, y = call.operand(0), call.operand(1), call.result
    if x.dtype is not DType.INT16:
        return READERS["PRELU"](call)
    if slope.dtype is not DType.INT8 or not isinstance(slope.type.quant, PerTensor):
        rule = "the slope of a 16-bit PRELU is int8 with one scale: LiteRT takes others for bytes"
        raise call.refuse(rule, repr(slope), "replace it by a leaky relu, or convert with int8 activations")
    levels = call.constant(1).constant.astype(np.int16) - np.int16(slope.zero_point)
    factors, zero = (
        constant_value(call.fresh(f"{y.name}/{name}"), data, PerTensor(scale))
        for name, data, scale in (("slope", levels, slope.scale), ("zero", np.zeros((), np.int16), x.scale))
    )
    chain, (low, high) = OpChain(call), DType.INT16.bounds
    scaled = chain.add(Lut, "scaled", x.shape, y, x=x, function=Function.LEAKY_RELU, alpha=1.0)
    sloped = chain.add(Mul, "sloped", x.shape, y, a=x, b=factors, low=low, high=high)
    flag = Value(call.fresh(f"{y.name}/is_positive"), TensorType(x.shape, DType.BOOL))
    chain.add(Compare, flag, x.shape, x, a=x, b=zero, relation=Relation.GREATER_EQUAL)
    chain.add(Where, y, x.shape, y, condition=flag, a=scaled, b=sloped)
    return chain.ops


def _lut_op(call: ReadOperator, entries: Int64Array) -> Op:
    table = constant_value(
        call.fresh(f"{call.result.name}/table"), clamp_to_int8(entries, -128, 127).astype(np.int8)
    )
    return Lut(x=call.operand(0), y=call.result, table=table, source=call.source)


def read_table(call: ReadOperator) -> list[Op]:
    """Reads Pillion's own operator for a lookup table."""
    require_int8(call)
    if (call.constant(1).shape, call.constant(1).dtype) != ((256,), DType.INT8):
        raise call.refuse("a table has 256 int8 entries", repr(call.constant(1)))
    return [_lut_op(call, call.constant(1).constant.astype(np.int64))]


ROWS: dict[str, Reading] = {
    **{"ELU": elu, "NEG": read_negation, "PRELU": read_prelu},
    f"CUSTOM {tflite.TABLE_OPERATOR}": read_table,
}
"""The readers of this file, by operator name."""
