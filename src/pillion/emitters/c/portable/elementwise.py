# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of everything that is done element by element."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from pillion.emitters.c.axes import broadcast_steps, numbers
from pillion.emitters.c.conditions import int8, orderly, overwritable
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.library import PORTABLE
from pillion.emitters.c.portable.standardize import words
from pillion.emitters.c.portable.walk import Rows, rows_of
from pillion.errors import PillionError
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import BYTES, Array, DType, PerTensor, Value
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.clamp import Clamp
from pillion.ops.elementwise import Add, Binary, Extremum, Maximum, Minimum, Mul, Sub, Sum
from pillion.ops.formats import Dequantize, Quantize, Requantize
from pillion.ops.lut import Lut
from pillion.ops.prelu import Prelu
from pillion.ops.squared_difference import SquaredDifference
from pillion.ops.wide_add import TYPES, WideAdd
from pillion.ops.wide_lut import WideLut
from pillion.ops.wide_mul import WideMul

EVERY_INT8 = np.arange(-128, 128, dtype=np.int8)

# --- two operands -----------------------------------------------------------------------------------------------------


def pairs(op: Binary) -> Rows:
    """Gives the walk through two operands, either of which may repeat."""
    return rows_of(op.y.shape, [broadcast_steps(v.shape, op.y.shape) for v in (op.a, op.b)])


def broadcast(op: Binary) -> Params:
    """Gives the walk through two operands as parameters."""
    rows = pairs(op)
    (a_step, b_step), (a_row_step, b_row_step) = rows.step, rows.row_step
    steps: Params = {"a_row_step": numbers(a_row_step), "b_row_step": numbers(b_row_step)}
    return {**rows.params, "a_step": a_step, "b_step": b_step, **rows.axes, **steps}


def sum_of(op: Sum, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a sum or difference."""
    a, b, out = op.rescale
    params: Params = {
        **broadcast(op),
        **{"a_zp": op.a.zero_point, "a_multiplier": a.mantissa, "a_shift": a.shift},
        **{"b_zp": op.b.zero_point, "b_multiplier": b.mantissa, "b_shift": b.shift, "b_sign": op.sign},
        **{"out_multiplier": out.mantissa, "out_shift": out.shift},
        **{"out_zp": op.y.zero_point, "low": op.low, "high": op.high},
    }
    return (Call(PORTABLE.routine("add_s8"), params, (op.a, op.b), op.y),)


def wide_sum(op: WideAdd, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a sum in 16 bits."""
    first, second = op.multipliers
    params: Params = {
        **broadcast(op),
        **bytes_of_elements(op),
        **{"a_multiplier": first, "b_multiplier": second, "places": op.places},
        **words(op.offset, "offset"),
    }
    return (Call(PORTABLE.routine("wide_add"), params, (op.a, op.b), op.y),)


def bytes_of_elements(op: WideAdd | WideMul) -> Params:
    """Gives the bytes of an element of each operand and of the result as parameters."""
    return {f"{name}_bytes": v.dtype.size_bytes for name, v in (("a", op.a), ("b", op.b), ("y", op.y))}


def factors_of_product(op: WideMul) -> Params:
    """Gives how operands are scaled, and all zero points, as parameters."""
    zeros: Params = {"a_zp": op.a.zero_point, "b_zp": op.b.zero_point, "out_zp": op.y.zero_point}
    return {**zeros, "multiplier": op.multiplier, "left": op.left}


def wide_product(op: WideMul, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a product in 16 bits."""
    params: Params = {**broadcast(op), **bytes_of_elements(op), **factors_of_product(op)}
    return (Call(PORTABLE.routine("wide_mul"), params, (op.a, op.b), op.y),)


def wide_lookup(op: WideLut, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a function in 16 bits."""
    return (
        Call(PORTABLE.routine("wide_lut"), {"count": op.y.type.elements, "table": op.entries}, (op.x,), op.y),
    )


def judge_wide_lookup(op: WideLut, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the element types of a function in 16 bits."""
    values = {"x": op.x, "y": op.y}
    return tuple(Verdict(n, v.dtype is DType.INT16, "int16", v.dtype.value) for n, v in values.items())


def judge_wide_pair(op: WideAdd | WideMul, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the element types of a sum or product in 16 bits and the number of its axes."""
    values = {"a": op.a, "b": op.b, "y": op.y}
    types = tuple(Verdict(n, v.dtype in TYPES, "int8 or int16", v.dtype.value) for n, v in values.items())
    return (*types, *pairs(op).few_axes)


def operand_of_its_type(op: WideAdd | WideMul) -> tuple[Value, ...]:
    """Gives the operands of the result's element type, whose memory it may take over."""
    return overwritable(op, *(v for v in (op.a, op.b) if v.dtype is op.y.dtype))


def squared_difference(op: SquaredDifference, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the square of a difference."""
    a, b, out = op.rescale
    params: Params = {
        **broadcast(op),
        **{"a_zp": op.a.zero_point, "a_multiplier": a.mantissa, "a_shift": a.shift},
        **{"b_zp": op.b.zero_point, "b_multiplier": b.mantissa, "b_shift": b.shift},
        **{"out_multiplier": out.mantissa, "out_shift": out.shift},
        **{"out_zp": op.y.zero_point, "low": -128, "high": 127},
    }
    return (Call(PORTABLE.routine("squared_difference_s8"), params, (op.a, op.b), op.y),)


def product(op: Mul, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a product."""
    m = op.multiplier(arithmetic)
    params: Params = {
        **broadcast(op),
        **{"a_zp": op.a.zero_point, "b_zp": op.b.zero_point, "multiplier": m.mantissa, "shift": m.shift},
        **{"out_zp": op.y.zero_point, "low": op.low, "high": op.high},
    }
    return (Call(PORTABLE.routine("mul_s8"), params, (op.a, op.b), op.y),)


def extremum(op: Extremum, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a minimum or maximum of two tensors."""
    return (Call(PORTABLE.routine(f"{op.kind}_s8"), broadcast(op), (op.a, op.b), op.y),)


def judge_pairs(op: Binary, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the element types of an op with two operands and the number of its axes."""
    return (*int8(a=op.a, b=op.b, y=op.y), *pairs(op).few_axes)


def judge_extremum(op: Extremum, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the element types of a minimum or maximum, booleans among them, and the number of its axes."""
    return (*orderly(a=op.a, b=op.b, y=op.y), *pairs(op).few_axes)


def either_operand(op: Binary) -> tuple[Value, ...]:
    """Gives the operands whose memory the result may take over."""
    return overwritable(op, op.a, op.b)


# --- one operand and a number -----------------------------------------------------------------------------------------

WITH_A_NUMBER: tuple[type[Op], ...] = (Add, Sub, SquaredDifference, Mul, Minimum, Maximum, Prelu)


def other_than_a_number(op: Op) -> Value | None:
    """Gives the operand that meets a constant of one element, if one of both does."""
    for x, number in permutations(op.operands):
        if (
            number.is_constant
            and number.type.elements == 1
            and x.type.elements == op.results[0].type.elements
        ):
            return x
    return None


def entries_with_a_number(op: Op, arithmetic: Arithmetic) -> Array:
    """Gives the table of an op with one constant number, which makes it a function of one number."""
    x = other_than_a_number(op)
    operands = (EVERY_INT8 if v is x else v.constant.reshape(1) for v in op.operands)
    return op.reference(arithmetic, *operands).reshape(-1)


def with_a_number(op: Op, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call for an op with one constant number: a table lookup."""
    x = other_than_a_number(op)
    assert x is not None
    return (by_table(op, x, entries_with_a_number(op, arithmetic)),)


def judge_number(op: Op, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether one operand is a constant number, and whether the other is long enough to be worth a table."""
    is_found, count = other_than_a_number(op) is not None, op.results[0].type.elements
    first, second = op.operands
    got = f"{list(first.shape)} and {list(second.shape)}"
    return (
        *int8(**{v.name: v for v in (first, second, op.results[0])}),
        Verdict("number", is_found, "one operand is a constant of one element", got),
        Verdict(
            "elements", count >= len(EVERY_INT8), f"{len(EVERY_INT8)} as in the table, or more", str(count)
        ),
    )


def in_place_with_a_number(op: Op) -> tuple[Value, ...]:
    """Gives the operand beside a constant number, whose memory the result may take over."""
    x = other_than_a_number(op)
    return overwritable(op, x) if x is not None else ()


# --- one operand ------------------------------------------------------------------------------------------------------


def lookup(op: Lut, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call for a function of one number: a table lookup."""
    return (by_table(op, op.x, op.entries(arithmetic)),)


def by_table(op: Op, x: Value, entries: Array) -> Call:
    """Gives the call of a lookup in a table with an entry for every int8 number."""
    y = op.results[0]
    return Call(
        PORTABLE.routine("lut_s8"),
        {"count": y.type.elements, "table": np.ascontiguousarray(entries, np.int8)},
        (x,),
        y,
    )


def judge_lookup(op: Lut, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a function goes from int8 to int8 and has a table."""
    types = int8(x=op.x, y=op.y)
    return (*types, judge_function(op, arithmetic)) if all_ok(types) else types


def judge_function(op: Lut, arithmetic: Arithmetic) -> Verdict:
    """Judges whether the arithmetic of this unit has the function."""
    wanted = f"a function of {arithmetic.value} arithmetic"
    try:
        op.entries(arithmetic)
    except PillionError as error:
        return Verdict("function", False, wanted, f"{op.function.value}: {error.what}")
    return Verdict("function", True, wanted, op.function.value)


def rescaled(op: Requantize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call for a change of scale: a function of one number, hence a table lookup."""
    return (by_table(op, op.x, entries_rescaled(op, arithmetic)),)


def entries_rescaled(op: Requantize, arithmetic: Arithmetic) -> Array:
    """Gives the table of a change of scale, as the bytes that it makes of the bytes 128, 129, … 127."""
    return op.reference(arithmetic, EVERY_INT8.view(op.x.dtype.numpy)).view(np.int8)


def judge_rescaled(op: Requantize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether bytes become bytes: each of them has an entry in the table, signed or not."""
    ends = {"x": op.x, "y": op.y}
    return tuple(Verdict(n, v.dtype in BYTES, "int8 or uint8", v.dtype.value) for n, v in ends.items())


def clamped(op: Clamp, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call for a clamp: a comparison, or a table lookup where the scale changes, too."""
    if op.x.quant != op.y.quant:
        return (by_table(op, op.x, op.reference(arithmetic, EVERY_INT8)),)
    params: Params = {"count": op.y.type.elements, "low": op.low, "high": op.high}
    return (Call(PORTABLE.routine("clamp_s8"), params, (op.x,), op.y),)


def judge_numbers(op: Requantize | Clamp, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether an op of one operand goes from int8 to int8."""
    return int8(x=op.x, y=op.y)


def same_operand(op: Lut | WideLut | Requantize | Clamp | Quantize) -> tuple[Value, ...]:
    """Gives the only operand, whose memory the result may take over."""
    return overwritable(op, op.x)


# --- between real numbers and integers --------------------------------------------------------------------------------


def reciprocal(op: Quantize) -> float:
    """Gives 1 / scale in float32, as the kernel multiplies by it; infinite where the scale is too small."""
    with np.errstate(over="ignore"):
        return float(np.float32(1) / np.float32(op.y.scale))


def quantized(op: Quantize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call that makes float32 int8, in the arithmetic of the unit that runs it."""
    shared: Params = {"count": op.y.type.elements, "out_zp": op.y.zero_point}
    if arithmetic.is_tflite:
        return (Call(PORTABLE.routine("quantize_tflite_s8"), {**shared, "scale": op.y.scale}, (op.x,), op.y),)
    return (Call(PORTABLE.routine("quantize_s8"), {**shared, "reciprocal": reciprocal(op)}, (op.x,), op.y),)


def judge_quantized(op: Quantize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether the result is int8 and its scale has a finite reciprocal."""
    is_finite = bool(np.isfinite(reciprocal(op)))
    return (*int8(y=op.y), Verdict("scale", is_finite, "a finite reciprocal", repr(op.y.scale)))


def dequantized(op: Dequantize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call that makes int8 float32."""
    params: Params = {"count": op.y.type.elements, "in_zp": op.x.zero_point, "scale": op.x.scale}
    return (
        Call(
            PORTABLE.routine(f"dequantize_{'s16' if op.x.dtype is DType.INT16 else 's8'}"),
            params,
            (op.x,),
            op.y,
        ),
    )


def judge_dequantized_of_any(op: Dequantize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the same of numbers of 8 or 16 bits."""
    held = Verdict("x", op.x.dtype in TYPES, "int8 or int16", op.x.dtype.value)
    return (held, *(one for one in judge_dequantized(op, arithmetic) if one.rule != "x"))


def judge_dequantized(op: Dequantize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether one scale holds for the whole tensor, and the result is float32."""
    is_plain = isinstance(op.x.type.quant, PerTensor)
    scales = Verdict("scales", is_plain, "one for the tensor", "one" if is_plain else "one per channel")
    result = Verdict("y", op.y.dtype is DType.FLOAT32, "float32", op.y.dtype.value)
    return (*int8(x=op.x), result, scales)


KERNELS: tuple[Kernel, ...] = (
    *(
        PORTABLE.row(
            cls, with_a_number, judge_number, in_place=in_place_with_a_number, name=f"{cls.kind}_by_table"
        )
        for cls in WITH_A_NUMBER
    ),
    PORTABLE.row(Add, sum_of, judge_pairs, in_place=either_operand),
    PORTABLE.row(WideAdd, wide_sum, judge_wide_pair, in_place=operand_of_its_type),
    PORTABLE.row(WideMul, wide_product, judge_wide_pair, in_place=operand_of_its_type),
    PORTABLE.row(WideLut, wide_lookup, judge_wide_lookup, in_place=same_operand),
    PORTABLE.row(Sub, sum_of, judge_pairs, in_place=either_operand),
    PORTABLE.row(SquaredDifference, squared_difference, judge_pairs, in_place=either_operand),
    PORTABLE.row(Mul, product, judge_pairs, in_place=either_operand),
    PORTABLE.row(Minimum, extremum, judge_extremum, in_place=either_operand),
    PORTABLE.row(Maximum, extremum, judge_extremum, in_place=either_operand),
    PORTABLE.row(Lut, lookup, judge_lookup, in_place=same_operand),
    PORTABLE.row(Clamp, clamped, judge_numbers, in_place=same_operand),
    PORTABLE.row(Quantize, quantized, judge_quantized, in_place=same_operand),
    PORTABLE.row(Dequantize, dequantized, judge_dequantized_of_any),
    PORTABLE.row(Requantize, rescaled, judge_rescaled, in_place=same_operand),
)
