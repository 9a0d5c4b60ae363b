# SPDX-License-Identifier: Apache-2.0
"""The kernels of what is done element by element, for the computer that Pillion runs on."""

from __future__ import annotations

from pillion.emitters.c.dsp import elementwise as dsp
from pillion.emitters.c.host.conv import MOST_RIGHT
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.library import HOST
from pillion.emitters.c.portable.elementwise import (
    EVERY_INT8,
    WITH_A_NUMBER,
    entries_rescaled,
    entries_with_a_number,
    in_place_with_a_number,
    judge_lookup,
    judge_number,
    judge_numbers,
    judge_rescaled,
    other_than_a_number,
    reciprocal,
    same_operand,
)
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, Value
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.clamp import Clamp
from pillion.ops.elementwise import Add, Mul, Sub, Sum
from pillion.ops.formats import Quantize, Requantize
from pillion.ops.lut import Lut
from pillion.ops.movement import Transpose

SUM, MUL, LUT = HOST.routine("sum_s8"), HOST.routine("mul_s8"), HOST.routine("lut_s8")
QUANTIZE, INTERLEAVE = HOST.routine("quantize_s8"), HOST.routine("interleave_s8")
MOST_ROWS = 4
"""Rows of a matrix whose columns fit a lane."""

# --- two operands -----------------------------------------------------------------------------------------------------


def sum_of(op: Sum, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a sum, by the formula that is proven for all pairs of numbers."""
    (call,) = dsp.calls_sum(op, arithmetic)
    return (Call(SUM, call.params, call.inputs, call.output),)


def judge_mul(op: Mul, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a product is rescaled by a shift to the right."""
    shapes = dsp.judge_shapes(op)
    if not all_ok(shapes):
        return shapes
    right = -op.multiplier(arithmetic).shift
    return (*shapes, Verdict("right_shift", 1 <= right <= MOST_RIGHT, f"1 to {MOST_RIGHT}", str(right)))


def product_of(op: Mul, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a product, with the larger operand first."""
    operands, m = dsp.whole_and_row(op), op.multiplier(arithmetic)
    assert operands is not None
    params: Params = {
        **dsp.rows_of(op),
        **{"zp1": operands[0].zero_point, "zp2": operands[1].zero_point, "out_zp": op.y.zero_point},
        **{"multiplier": m.mantissa, "right": -m.shift, "low": op.low, "high": op.high},
    }
    return (Call(MUL, params, operands, op.y),)


# --- one operand ------------------------------------------------------------------------------------------------------


def by_table(op: Op, x: Value, entries: Array) -> tuple[Call, ...]:
    """Gives the call of a table lookup."""
    y = op.results[0]
    return (Call(LUT, {"count": y.type.elements, "table": entries.astype("int8")}, (x,), y),)


def with_a_number(op: Op, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call for an op with one constant number: a table lookup."""
    x = other_than_a_number(op)
    assert x is not None
    return by_table(op, x, entries_with_a_number(op, arithmetic))


def lookup(op: Lut, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call for a function of one number: a table lookup."""
    return by_table(op, op.x, op.entries(arithmetic))


def rescaled(op: Requantize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call for a change of scale: a table lookup."""
    return by_table(op, op.x, entries_rescaled(op, arithmetic))


def clamped_by_table(op: Clamp, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call for a clamp that changes the scale: a table lookup."""
    return by_table(op, op.x, op.reference(arithmetic, EVERY_INT8))


def quantized(op: Quantize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the kernel that makes float32 int8."""
    params: Params = {"count": op.y.type.elements, "out_zp": op.y.zero_point, "reciprocal": reciprocal(op)}
    return (Call(QUANTIZE, params, (op.x,), op.y),)


# --- movement ---------------------------------------------------------------------------------------------------------


def judge_interleaved(op: Transpose, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a transpose puts a few planes side by side, as from channels first to channels last."""
    order = dsp.judge_transpose(op, arithmetic)
    if not all_ok(order):
        return order
    _, rows, columns = dsp.matrices(op) or (0, 0, 0)
    fits = 2 <= rows <= MOST_ROWS <= columns
    return (*order, Verdict("rows", fits, f"2 to {MOST_ROWS}, and more columns", f"{rows} of {columns}"))


def interleaved(op: Transpose, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the kernel that puts planes side by side."""
    (call,) = dsp.calls_transpose(op, arithmetic)
    return (Call(INTERLEAVE, call.params, call.inputs, call.output),)


KERNELS: tuple[Kernel, ...] = (
    *(
        HOST.row(
            cls, with_a_number, judge_number, name=f"{cls.kind}_by_table", in_place=in_place_with_a_number
        )
        for cls in WITH_A_NUMBER
    ),
    HOST.row(Add, sum_of, dsp.judge_sum, name="sum", in_place=dsp.in_place_of_whole),
    HOST.row(Sub, sum_of, dsp.judge_sum, name="sum", in_place=dsp.in_place_of_whole),
    HOST.row(Mul, product_of, judge_mul, in_place=dsp.in_place_of_whole),
    HOST.row(Lut, lookup, judge_lookup, in_place=same_operand),
    HOST.row(Requantize, rescaled, judge_rescaled, name="lut", in_place=same_operand),
    HOST.row(Clamp, clamped_by_table, judge_numbers, name="lut", in_place=same_operand),
    HOST.row(Quantize, quantized, dsp.takes_quantize, in_place=same_operand),
    HOST.row(Transpose, interleaved, judge_interleaved, name="interleave"),
)
