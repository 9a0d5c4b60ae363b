# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of elementwise ops."""

from __future__ import annotations

from functools import partial

import numpy as np

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import INT8_ABY, INT8_XY, dtypes, in_place_same_shape
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.emitters.c.table_lookup import TableLookup
from pillion.emitters.c.walk import broadcast_walk
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType, PerTensor, Value
from pillion.ir.verdict import Verdict
from pillion.ops.clamp import Clamp
from pillion.ops.elementwise import Add, Binary, Maximum, Minimum, Mul, Sub
from pillion.ops.formats import Dequantize, Quantize, Requantize
from pillion.ops.squared_difference import SquaredDifference
from pillion.ops.wide_add import TYPES, WideAdd
from pillion.ops.wide_lut import WideLut
from pillion.ops.wide_mul import WideMul

TABLE = TableLookup(PORTABLE)

# --- two operands -----------------------------------------------------------------------------------------------------


def few_axes(op: Binary) -> tuple[Verdict, ...]:
    """Checks whether the walk over two operands has few enough axes."""
    return broadcast_walk(op).few_axes


def wide_multipliers(op: WideAdd) -> Params:
    """Returns the factors of a 16-bit sum as parameters."""
    return dict(zip(("a_multiplier", "b_multiplier"), op.multipliers, strict=True))


def in_place_wide(op: WideAdd | WideMul) -> tuple[Value, ...]:
    """Returns the operands of the result's element type, whose memory it may overwrite."""
    return in_place_same_shape(op, *(v for v in (op.a, op.b) if v.dtype is op.y.dtype))


WIDE_ABY = dtypes("a b y", *TYPES)
INT16_XY = dtypes("x y", DType.INT16)
INT8_OR_BOOL_ABY = dtypes("a b y", DType.INT8, DType.BOOL)

# --- one operand ------------------------------------------------------------------------------------------------------


def clamp_routine(op: Clamp) -> str:
    """Returns the routine of a clamp: a comparison, or a table lookup if the scale changes."""
    return "clamp_s8" if op.x.quant == op.y.quant else "lut_s8"


def clamp_params(table: TableLookup, op: Clamp, arithmetic: Arithmetic) -> Params:
    """Returns the parameters of a clamp."""
    return {} if op.x.quant == op.y.quant else table.bytes(op, arithmetic)


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
    return {"scale": op.y.scale} if arithmetic.is_tflite else {"reciprocal": reciprocal(op)}


def finite_reciprocal(op: Quantize) -> Verdict:
    """Checks whether the scale of a quantization has a finite reciprocal."""
    return Verdict("scale", bool(np.isfinite(reciprocal(op))), "a finite reciprocal", repr(op.y.scale))


def real_scale(op: Dequantize) -> Params:
    """Returns the scale of a dequantization as parameters."""
    return {"scale": op.x.scale}


def one_scale(op: Dequantize) -> Verdict:
    """Checks whether a tensor has a single scale."""
    is_plain = isinstance(op.x.type.quant, PerTensor)
    return Verdict("scales", is_plain, "one for the tensor", "one" if is_plain else "one per channel")


INT8_Y = dtypes("y", DType.INT8)
TO_FLOAT = (dtypes("x", DType.INT8), dtypes("y", DType.FLOAT32), one_scale)
"""An int8 tensor of a single scale becomes float32."""

KERNELS: tuple[Kernel, ...] = (
    *TABLE.kernels(),
    PORTABLE.kernel(Add, "add_s8", requires=(INT8_ABY, few_axes), in_place="a b"),
    PORTABLE.kernel(
        WideAdd, "wide_add", wide_multipliers, requires=(WIDE_ABY, few_axes), in_place=in_place_wide
    ),
    PORTABLE.kernel(
        WideMul,
        "wide_mul",
        requires=(WIDE_ABY, few_axes),
        in_place=in_place_wide,
    ),
    PORTABLE.kernel(
        WideLut, "wide_lut", lambda op: {"table": op.entries}, requires=(INT16_XY,), in_place="x"
    ),
    PORTABLE.kernel(Sub, "add_s8", requires=(INT8_ABY, few_axes), in_place="a b"),
    PORTABLE.kernel(
        SquaredDifference,
        "squared_difference_s8",
        lambda op: {"low": -128, "high": 127},
        requires=(INT8_ABY, few_axes),
        in_place="a b",
    ),
    PORTABLE.kernel(Mul, "mul_s8", requires=(INT8_ABY, few_axes), in_place="a b"),
    *(
        PORTABLE.kernel(op, f"{op.kind}_s8", requires=(INT8_OR_BOOL_ABY, few_axes), in_place="a b")
        for op in (Minimum, Maximum)
    ),
    PORTABLE.kernel(Clamp, clamp_routine, partial(clamp_params, TABLE), requires=(INT8_XY,), in_place="x"),
    PORTABLE.kernel(
        Quantize, quantize_routine, quantize_params, requires=(INT8_Y, finite_reciprocal), in_place="x"
    ),
    PORTABLE.kernel(
        Dequantize,
        lambda op: f"dequantize_{'s16' if op.x.dtype is DType.INT16 else 's8'}",
        real_scale,
        requires=(dtypes("x", *TYPES), *TO_FLOAT[1:]),
    ),
    TABLE.byte_kernel(Requantize),
)
