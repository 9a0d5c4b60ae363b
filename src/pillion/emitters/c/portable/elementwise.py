# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of elementwise ops."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import INT8_ABY, INT8_XY, dtypes, in_place_same_shape
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.emitters.c.portable.normalize import int64_fields
from pillion.emitters.c.portable.walk import WalkRows, rows_of
from pillion.emitters.c.strides import as_int32_array, broadcast_steps
from pillion.emitters.c.table_lookup import TableLookup
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType, PerTensor, Value
from pillion.ir.verdict import Verdict
from pillion.ops.clamp import Clamp
from pillion.ops.elementwise import Add, AddOrSub, Binary, Maximum, Minimum, Mul, Sub
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


def few_axes(op: Binary) -> tuple[Verdict, ...]:
    """Checks whether the walk over two operands has few enough axes."""
    return broadcast_walk(op).few_axes


def broadcast_params(op: Binary) -> Params:
    """Returns the walk over two operands as parameters."""
    rows = broadcast_walk(op)
    (a_step, b_step), (a_row_step, b_row_step) = rows.step, rows.row_step
    steps: Params = {"a_row_step": as_int32_array(a_row_step), "b_row_step": as_int32_array(b_row_step)}
    return {**rows.params, "a_step": a_step, "b_step": b_step, **rows.axes, **steps}


def sum_scales(op: AddOrSub | SquaredDifference) -> dict[str, int]:
    """Returns the multipliers of both operands and of the result as parameters."""
    names = zip(("a", "b", "out"), op.rescale, strict=True)
    return {
        f"{name}_{part}": number
        for name, m in names
        for part, number in (("multiplier", m.mantissa), ("shift", m.shift))
    }


def sum_params(op: AddOrSub) -> Params:
    """Returns the parameters of a sum or difference."""
    return {**broadcast_params(op), **sum_scales(op), "b_sign": op.sign}


def squared_difference_params(op: SquaredDifference) -> Params:
    """Returns the parameters of a squared difference."""
    return {**broadcast_params(op), **sum_scales(op), "low": -128, "high": 127}


def wide_sum_params(op: WideAdd) -> Params:
    """Returns the parameters of a 16-bit sum."""
    first, second = op.multipliers
    scale: Params = {"a_multiplier": first, "b_multiplier": second, **int64_fields(op.offset, "offset")}
    return {**broadcast_params(op), **element_bytes(op), **scale}


def element_bytes(op: WideAdd | WideMul) -> Params:
    """Returns the element sizes of operands and result as parameters."""
    return {f"{name}_bytes": v.dtype.size_bytes for name, v in (("a", op.a), ("b", op.b), ("y", op.y))}


def in_place_wide(op: WideAdd | WideMul) -> tuple[Value, ...]:
    """Returns the operands of the result's element type, whose memory it may overwrite."""
    return in_place_same_shape(op, *(v for v in (op.a, op.b) if v.dtype is op.y.dtype))


def mul_params(op: Mul, arithmetic: Arithmetic) -> Params:
    """Returns the parameters of a product."""
    m = op.multiplier(arithmetic)
    return {**broadcast_params(op), "multiplier": m.mantissa, "shift": m.shift}


WIDE_ABY = dtypes("a b y", *TYPES)
INT16_XY = dtypes("x y", DType.INT16)
INT8_OR_BOOL_ABY = dtypes("a b y", DType.INT8, DType.BOOL)

# --- one operand ------------------------------------------------------------------------------------------------------


def count(op: Any) -> Params:
    """Returns the number of elements as parameters."""
    return {"count": op.y.type.elements}


def wide_lut_params(op: WideLut) -> Params:
    """Returns the parameters of a 16-bit unary function."""
    return {**count(op), "table": op.entries}


def clamp_routine(op: Clamp) -> str:
    """Returns the routine of a clamp: a comparison, or a table lookup if the scale changes."""
    return "clamp_s8" if op.x.quant == op.y.quant else "lut_s8"


def clamp_params(table: TableLookup, op: Clamp, arithmetic: Arithmetic) -> Params:
    """Returns the parameters of a clamp."""
    return count(op) if op.x.quant == op.y.quant else table.bytes(op, arithmetic)


# --- between real numbers and integers --------------------------------------------------------------------------------


def reciprocal(op: Quantize) -> float:
    """Returns 1 / scale in float32, the kernel's factor; infinite if the scale is too small."""
    with np.errstate(over="ignore"):
        return float(np.float32(1) / np.float32(op.y.scale))


def quantize_routine(op: Quantize, arithmetic: Arithmetic) -> str:
    """Returns the routine of a quantization in the graph's arithmetic."""
    return "quantize_tflite_s8" if arithmetic.is_tflite else "quantize_s8"


def quantize_params(op: Quantize, arithmetic: Arithmetic) -> Params:
    """Returns the parameters of a quantization in the graph's arithmetic."""
    scale = {"scale": op.y.scale} if arithmetic.is_tflite else {"reciprocal": reciprocal(op)}
    return {**count(op), **scale}


def finite_reciprocal(op: Quantize) -> Verdict:
    """Checks whether the scale of a quantization has a finite reciprocal."""
    return Verdict("scale", bool(np.isfinite(reciprocal(op))), "a finite reciprocal", repr(op.y.scale))


def dequantize_params(op: Dequantize) -> Params:
    """Returns the parameters of a dequantization."""
    return {**count(op), "scale": op.x.scale}


def one_scale(op: Dequantize) -> Verdict:
    """Checks whether a tensor has a single scale."""
    is_plain = isinstance(op.x.type.quant, PerTensor)
    return Verdict("scales", is_plain, "one for the tensor", "one" if is_plain else "one per channel")


INT8_Y = dtypes("y", DType.INT8)
TO_FLOAT = (dtypes("x", DType.INT8), dtypes("y", DType.FLOAT32), one_scale)
"""An int8 tensor of a single scale becomes float32."""

KERNELS: tuple[Kernel, ...] = (
    *TABLE.kernels(),
    PORTABLE.kernel(Add, "add_s8", sum_params, requires=(INT8_ABY, few_axes), in_place="a b"),
    PORTABLE.kernel(
        WideAdd, "wide_add", wide_sum_params, requires=(WIDE_ABY, few_axes), in_place=in_place_wide
    ),
    PORTABLE.kernel(
        WideMul,
        "wide_mul",
        lambda op: {**broadcast_params(op), **element_bytes(op)},
        requires=(WIDE_ABY, few_axes),
        in_place=in_place_wide,
    ),
    PORTABLE.kernel(WideLut, "wide_lut", wide_lut_params, requires=(INT16_XY,), in_place="x"),
    PORTABLE.kernel(Sub, "add_s8", sum_params, requires=(INT8_ABY, few_axes), in_place="a b"),
    PORTABLE.kernel(
        SquaredDifference,
        "squared_difference_s8",
        squared_difference_params,
        requires=(INT8_ABY, few_axes),
        in_place="a b",
    ),
    PORTABLE.kernel(Mul, "mul_s8", mul_params, requires=(INT8_ABY, few_axes), in_place="a b"),
    *(
        PORTABLE.kernel(
            op, f"{op.kind}_s8", broadcast_params, requires=(INT8_OR_BOOL_ABY, few_axes), in_place="a b"
        )
        for op in (Minimum, Maximum)
    ),
    PORTABLE.kernel(Clamp, clamp_routine, partial(clamp_params, TABLE), requires=(INT8_XY,), in_place="x"),
    PORTABLE.kernel(
        Quantize, quantize_routine, quantize_params, requires=(INT8_Y, finite_reciprocal), in_place="x"
    ),
    PORTABLE.kernel(
        Dequantize,
        lambda op: f"dequantize_{'s16' if op.x.dtype is DType.INT16 else 's8'}",
        dequantize_params,
        requires=(dtypes("x", *TYPES), *TO_FLOAT[1:]),
    ),
    TABLE.byte_kernel(Requantize),
)
