# SPDX-License-Identifier: Apache-2.0
"""Functions of one number that are no part of the arithmetic of a graph: read as the table that LiteRT computes."""

from __future__ import annotations

import numpy as np

from pillion.importers.tflite.model import Reading, ReadOperator
from pillion.importers.tflite.operands import int8_only
from pillion.ir.numerics import Int64Array, saturate
from pillion.ir.op import Op
from pillion.ir.types import constant
from pillion.ops.functions import Function
from pillion.ops.lut import Lut
from pillion.ops.lut_tflite import Floats, exp32, sampled


def elu(call: ReadOperator) -> list[Op]:
    """Reads an ELU as LiteRT's optimized kernel computes it: the reference kernels lack it."""
    int8_only(call)
    x = call.operand(0)
    lut = Lut(x=x, y=call.result, function=Function.ELU, table=None, alpha=1.0, source=call.source)
    levels = np.arange(-128, 128, dtype=np.int64) - x.zero_point
    return [_table(call, sampled(_elu)(lut, levels))]


def _elu(x: Floats) -> Floats:
    return np.where(x < 0, exp32(x) - np.float32(1), x)


def negated(call: ReadOperator) -> list[Op]:
    """Reads a NEG: LiteRT negates the bytes, whatever their zero points, and -128 stays as it is."""
    int8_only(call)
    bytes_ = np.arange(-128, 128, dtype=np.int64)
    return [_table(call, np.where(bytes_ == -128, -128, -bytes_))]


def _table(call: ReadOperator, entries: Int64Array) -> Op:
    held = constant(call.fresh(f"{call.result.name}/table"), saturate(entries, -128, 127).astype(np.int8))
    return Lut(x=call.operand(0), y=call.result, table=held, source=call.source)


ROWS: dict[str, Reading] = {"ELU": elu, "NEG": negated}
"""The readings of this file, by the operators' names."""
