# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of elementwise ops."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.kernel_conditions import int8, int8_or_bool, same_shape
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.emitters.c.portable.normalize import int64_fields
from pillion.emitters.c.portable.walk import WalkRows, rows_of
from pillion.emitters.c.strides import broadcast_steps, numbers
from pillion.emitters.c.table_lookup import TableLookup, check_clamp, check_requantize, in_place_unary
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType, PerTensor, Value
from pillion.ir.verdict import Verdict
from pillion.ops.clamp import Clamp
from pillion.ops.elementwise import Add, Binary, Extremum, Maximum, Minimum, Mul, Sub, Sum
from pillion.ops.formats import Dequantize, Quantize, Requantize
from pillion.ops.squared_difference import SquaredDifference
from pillion.ops.wide_add import TYPES, WideAdd
from pillion.ops.wide_lut import WideLut
from pillion.ops.wide_mul import WideMul

TABLE = TableLookup(PORTABLE)

# --- two operands -----------------------------------------------------------------------------------------------------


def broadcast_walk(op: Binary) -> WalkRows:
    """Returns the walk over two operands with broadcasting."""
    return rows_of(op.y.shape, [broadcast_steps(v.shape, op.y.shape) for v in (op.a, op.b)])


def broadcast_params(op: Binary) -> Params:
    """Returns the walk over two operands as parameters."""
    rows = broadcast_walk(op)
    (a_step, b_step), (a_row_step, b_row_step) = rows.step, rows.row_step
    steps: Params = {"a_row_step": numbers(a_row_step), "b_row_step": numbers(b_row_step)}
    return {**rows.params, "a_step": a_step, "b_step": b_step, **rows.axes, **steps}


def calls_sum(op: Sum, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a sum or difference."""
    a, b, out = op.rescale
    params: Params = {
        **broadcast_params(op),
        **{"a_zp": op.a.zero_point, "a_multiplier": a.mantissa, "a_shift": a.shift},
        **{"b_zp": op.b.zero_point, "b_multiplier": b.mantissa, "b_shift": b.shift, "b_sign": op.sign},
        **{"out_multiplier": out.mantissa, "out_shift": out.shift},
        **{"out_zp": op.y.zero_point, "low": op.low, "high": op.high},
    }
    return (Call(PORTABLE.routine("add_s8"), params, (op.a, op.b), op.y),)


def calls_wide_sum(op: WideAdd, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a 16-bit sum."""
    first, second = op.multipliers
    params: Params = {
        **broadcast_params(op),
        **element_bytes(op),
        **{"a_multiplier": first, "b_multiplier": second, "places": op.places},
        **int64_fields(op.offset, "offset"),
    }
    return (Call(PORTABLE.routine("wide_add"), params, (op.a, op.b), op.y),)


def element_bytes(op: WideAdd | WideMul) -> Params:
    """Returns the element sizes of operands and result as parameters."""
    return {f"{name}_bytes": v.dtype.size_bytes for name, v in (("a", op.a), ("b", op.b), ("y", op.y))}


def product_factors(op: WideMul) -> Params:
    """Returns the scale and the zero points of a 16-bit product as parameters."""
    zeros: Params = {"a_zp": op.a.zero_point, "b_zp": op.b.zero_point, "out_zp": op.y.zero_point}
    return {**zeros, "multiplier": op.multiplier, "left": op.left}


def calls_wide_mul(op: WideMul, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a 16-bit product."""
    params: Params = {**broadcast_params(op), **element_bytes(op), **product_factors(op)}
    return (Call(PORTABLE.routine("wide_mul"), params, (op.a, op.b), op.y),)


def calls_wide_lut(op: WideLut, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a 16-bit unary function."""
    return (
        Call(PORTABLE.routine("wide_lut"), {"count": op.y.type.elements, "table": op.entries}, (op.x,), op.y),
    )


def check_wide_lut(op: WideLut, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks the element types of a 16-bit unary function."""
    values = {"x": op.x, "y": op.y}
    return tuple(Verdict(n, v.dtype is DType.INT16, "int16", v.dtype.value) for n, v in values.items())


def check_wide_binary(op: WideAdd | WideMul, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks the element types of a 16-bit sum or product and the number of its axes."""
    values = {"a": op.a, "b": op.b, "y": op.y}
    types = tuple(Verdict(n, v.dtype in TYPES, "int8 or int16", v.dtype.value) for n, v in values.items())
    return (*types, *broadcast_walk(op).few_axes)


def in_place_wide(op: WideAdd | WideMul) -> tuple[Value, ...]:
    """Returns the operands of the result's element type, whose memory it may overwrite."""
    return same_shape(op, *(v for v in (op.a, op.b) if v.dtype is op.y.dtype))


def calls_squared_difference(op: SquaredDifference, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a squared difference."""
    a, b, out = op.rescale
    params: Params = {
        **broadcast_params(op),
        **{"a_zp": op.a.zero_point, "a_multiplier": a.mantissa, "a_shift": a.shift},
        **{"b_zp": op.b.zero_point, "b_multiplier": b.mantissa, "b_shift": b.shift},
        **{"out_multiplier": out.mantissa, "out_shift": out.shift},
        **{"out_zp": op.y.zero_point, "low": -128, "high": 127},
    }
    return (Call(PORTABLE.routine("squared_difference_s8"), params, (op.a, op.b), op.y),)


def calls_mul(op: Mul, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a product."""
    m = op.multiplier(arithmetic)
    params: Params = {
        **broadcast_params(op),
        **{"a_zp": op.a.zero_point, "b_zp": op.b.zero_point, "multiplier": m.mantissa, "shift": m.shift},
        **{"out_zp": op.y.zero_point, "low": op.low, "high": op.high},
    }
    return (Call(PORTABLE.routine("mul_s8"), params, (op.a, op.b), op.y),)


def calls_extremum(op: Extremum, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of an elementwise minimum or maximum."""
    return (Call(PORTABLE.routine(f"{op.kind}_s8"), broadcast_params(op), (op.a, op.b), op.y),)


def check_binary(op: Binary, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks the element types of a binary op and the number of its axes."""
    return (*int8(a=op.a, b=op.b, y=op.y), *broadcast_walk(op).few_axes)


def check_extremum(op: Extremum, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether a minimum or maximum is of int8 or bool, and the number of its axes."""
    return (*int8_or_bool(a=op.a, b=op.b, y=op.y), *broadcast_walk(op).few_axes)


def in_place_binary(op: Binary) -> tuple[Value, ...]:
    """Returns the operands whose memory the result may overwrite."""
    return same_shape(op, op.a, op.b)


# --- one operand ------------------------------------------------------------------------------------------------------


def calls_clamp(op: Clamp, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a clamp: a comparison, or a table lookup if the scale changes."""
    if op.x.quant != op.y.quant:
        return TABLE.clamp(op, arithmetic)
    params: Params = {"count": op.y.type.elements, "low": op.low, "high": op.high}
    return (Call(PORTABLE.routine("clamp_s8"), params, (op.x,), op.y),)


# --- between real numbers and integers --------------------------------------------------------------------------------


def reciprocal(op: Quantize) -> float:
    """Returns 1 / scale in float32, the kernel's factor; infinite if the scale is too small."""
    with np.errstate(over="ignore"):
        return float(np.float32(1) / np.float32(op.y.scale))


def calls_quantize(op: Quantize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a quantization in the graph's arithmetic."""
    shared: Params = {"count": op.y.type.elements, "out_zp": op.y.zero_point}
    if arithmetic.is_tflite:
        return (Call(PORTABLE.routine("quantize_tflite_s8"), {**shared, "scale": op.y.scale}, (op.x,), op.y),)
    return (Call(PORTABLE.routine("quantize_s8"), {**shared, "reciprocal": reciprocal(op)}, (op.x,), op.y),)


def check_scale(op: Quantize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether the result is int8 and its scale has a finite reciprocal."""
    is_finite = bool(np.isfinite(reciprocal(op)))
    return (*int8(y=op.y), Verdict("scale", is_finite, "a finite reciprocal", repr(op.y.scale)))


def calls_dequantize(op: Dequantize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a dequantization."""
    params: Params = {"count": op.y.type.elements, "in_zp": op.x.zero_point, "scale": op.x.scale}
    return (
        Call(
            PORTABLE.routine(f"dequantize_{'s16' if op.x.dtype is DType.INT16 else 's8'}"),
            params,
            (op.x,),
            op.y,
        ),
    )


def check_dequantize_wide(op: Dequantize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether an int8 or int16 tensor has a single scale and becomes float32."""
    held = Verdict("x", op.x.dtype in TYPES, "int8 or int16", op.x.dtype.value)
    return (held, *(one for one in check_dequantize(op, arithmetic) if one.rule != "x"))


def check_dequantize(op: Dequantize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether an int8 tensor has a single scale and becomes float32."""
    is_plain = isinstance(op.x.type.quant, PerTensor)
    scales = Verdict("scales", is_plain, "one for the tensor", "one" if is_plain else "one per channel")
    result = Verdict("y", op.y.dtype is DType.FLOAT32, "float32", op.y.dtype.value)
    return (*int8(x=op.x), result, scales)


KERNELS: tuple[Kernel, ...] = (
    *TABLE.kernels(),
    PORTABLE.kernel(Add, calls_sum, check_binary, in_place=in_place_binary),
    PORTABLE.kernel(WideAdd, calls_wide_sum, check_wide_binary, in_place=in_place_wide),
    PORTABLE.kernel(WideMul, calls_wide_mul, check_wide_binary, in_place=in_place_wide),
    PORTABLE.kernel(WideLut, calls_wide_lut, check_wide_lut, in_place=in_place_unary),
    PORTABLE.kernel(Sub, calls_sum, check_binary, in_place=in_place_binary),
    PORTABLE.kernel(SquaredDifference, calls_squared_difference, check_binary, in_place=in_place_binary),
    PORTABLE.kernel(Mul, calls_mul, check_binary, in_place=in_place_binary),
    PORTABLE.kernel(Minimum, calls_extremum, check_extremum, in_place=in_place_binary),
    PORTABLE.kernel(Maximum, calls_extremum, check_extremum, in_place=in_place_binary),
    PORTABLE.kernel(Clamp, calls_clamp, check_clamp, in_place=in_place_unary),
    PORTABLE.kernel(Quantize, calls_quantize, check_scale, in_place=in_place_unary),
    PORTABLE.kernel(Dequantize, calls_dequantize, check_dequantize_wide),
    PORTABLE.kernel(Requantize, TABLE.requantize, check_requantize, in_place=in_place_unary),
)
