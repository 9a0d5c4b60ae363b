# SPDX-License-Identifier: Apache-2.0
"""The DSP kernels of elementwise ops, pooling and transposes."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from pillion.emitters.c import sums_int16
from pillion.emitters.c.channel_scaling import MOST_SHIFT, rounding
from pillion.emitters.c.dsp import pair_formula
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.kernel_conditions import int8, same_shape
from pillion.emitters.c.kernel_library import DSP
from pillion.emitters.c.portable.elementwise import (
    calls_dequantize,
    calls_quantize,
    check_dequantize,
    check_scale,
    in_place_wide,
)
from pillion.emitters.c.portable.normalize import int64_fields
from pillion.emitters.c.portable.pool import calls_pool, check_pool
from pillion.emitters.c.strides import collapsed, contiguous_steps
from pillion.emitters.c.table_lookup import (
    EVERY_INT8,
    TableLookup,
    check_clamp,
    check_requantize,
    in_place_unary,
)
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Shape, Value
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.clamp import Clamp
from pillion.ops.elementwise import Add, Binary, Mul, Sub, Sum
from pillion.ops.formats import Dequantize, Quantize, Requantize
from pillion.ops.movement import Transpose
from pillion.ops.pool import AvgPool2d, AvgPool2dUp, MaxPool2d
from pillion.ops.wide_add import MOST_PLACES, WideAdd
from pillion.ops.wide_mul import WideMul

TABLE = TableLookup(DSP, is_unsigned=True)
POOL = DSP.port(calls_pool, "clamp")

# --- two operands -----------------------------------------------------------------------------------------------------


def ends_with(shape: Shape, end: Shape) -> bool:
    """Whether `shape` ends with `end` without its leading ones, so that `end` broadcasts row by row."""
    while end and end[0] == 1:
        end = end[1:]
    return not end or shape[-len(end) :] == end


def full_and_broadcast(op: Binary) -> tuple[Value, Value] | None:
    """Returns the operand with the shape of the result, and the one that broadcasts along its rows; None if there
    are no such."""
    for whole, part in ((op.a, op.b), (op.b, op.a)):
        if (
            math.prod(whole.shape) == op.y.type.elements
            and ends_with(op.y.shape, part.shape)
            and part.type.elements > 1
        ):
            return whole, part
    return None


def check_shapes(op: Binary) -> tuple[Verdict, ...]:
    """Checks whether the operands have equal shapes, or one broadcasts along the last axes of the other."""
    got = f"{list(op.a.shape)} and {list(op.b.shape)}"
    fits = Verdict(
        "shapes",
        full_and_broadcast(op) is not None,
        "equal, or one repeats along the last axes of the other",
        got,
    )
    return (*int8(a=op.a, b=op.b, y=op.y), fits)


def row_params(op: Binary) -> Params:
    """Returns the parameters of a walk over the larger operand in rows as long as the smaller one."""
    _, part = full_and_broadcast(op) or (op.a, op.b)
    return {"rows": op.y.type.elements // part.type.elements, "count": part.type.elements}


def in_place_full(op: Binary) -> tuple[Value, ...]:
    """Returns the operands whose memory the result may overwrite; a broadcast one must stay."""
    whole, part = full_and_broadcast(op) or (op.a, op.b)
    return same_shape(op, whole, *([part] if part.type.elements == op.y.type.elements else []))


@lru_cache(maxsize=256)
def formula(op: Sum, arithmetic: Arithmetic) -> pair_formula.PairFormula | None:
    """Returns the cheap formula of a sum, with the operands in their own order."""
    wanted = op.reference(arithmetic, EVERY_INT8[:, None], EVERY_INT8[None, :]).astype(np.int64)
    return pair_formula.find(wanted, op.slopes, op.low, op.high)


def check_sum(op: Sum, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether a cheap formula computes the sum of every pair of numbers."""
    shapes = check_shapes(op)
    if not all_ok(shapes):
        return shapes
    found = formula(op, arithmetic)
    wanted = "(a x1 + b x2 + c) >> shift, right for all pairs"
    return (*shapes, Verdict("formula", found is not None, wanted, "found" if found else "none found"))


def calls_sum(op: Sum, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of the sum kernel, with the larger operand first."""
    found, operands = formula(op, arithmetic), full_and_broadcast(op)
    assert found is not None
    assert operands is not None
    a, b = (found.a, found.b) if operands[0] is op.a else (found.b, found.a)
    last: Params = {"a": a, "b": b, "c": found.c, "shift": found.shift, "low": op.low, "high": op.high}
    return (Call(DSP.routine("sum_s8", "clamp"), {**row_params(op), **last}, operands, op.y),)


MOST_LEFT = 15
"""The largest left shift of a 16-bit operand that fits 32 bits."""


def check_wide_sum(op: WideAdd, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether the operands can be shifted so far left that the result lies in the upper word of their sum."""
    return sums_int16.check_sum(
        op, arithmetic, 32 - MOST_LEFT, MOST_PLACES, lambda places: 31 + min(places, 32)
    )


def calls_wide_sum(op: WideAdd, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a 16-bit sum."""
    ordered = sums_int16.wider_first(op)
    first, second = ordered.multipliers
    left, right = max(32 - op.places, 0), max(op.places - 32, 0)
    params: Params = {
        **sums_int16.row_params(ordered.op),
        **{"a_multiplier": first, "b_multiplier": second},
        **int64_fields(op.offset << left, "offset"),
        **{"left": left, "right": right},
    }
    return (Call(DSP.routine("wide_add"), params, (ordered.op.a, ordered.op.b), op.y),)


def check_mul(op: Mul, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether a product is rescaled by a right shift within the kernel's range."""
    shapes = check_shapes(op)
    if not all_ok(shapes):
        return shapes
    right = -op.multiplier(arithmetic).shift
    return (
        *shapes,
        Verdict("right_shift", 1 <= right <= MOST_SHIFT, f"1 to {MOST_SHIFT}", str(right)),
    )


def calls_mul(op: Mul, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of the product kernel, with the larger operand first."""
    operands, m = full_and_broadcast(op), op.multiplier(arithmetic)
    assert operands is not None
    params: Params = {
        **row_params(op),
        **{"zp1": operands[0].zero_point, "zp2": operands[1].zero_point},
        **{"round": rounding(op.y.zero_point, -m.shift), "multiplier": m.mantissa, "right": -m.shift},
        **{"low": op.low, "high": op.high},
    }
    return (Call(DSP.routine("mul_s8", "clamp"), params, operands, op.y),)


# --- one operand ------------------------------------------------------------------------------------------------------


def check_quantize(op: Quantize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether the graph rounds as the kernel does; LiteRT rounds ties away from zero."""
    rounding = Verdict(
        "arithmetic", arithmetic is Arithmetic.CMSIS_NN, Arithmetic.CMSIS_NN.value, arithmetic.value
    )
    return (rounding, *check_scale(op, arithmetic))


# --- pooling ----------------------------------------------------------------------------------------------------------

MOST_PIXELS = 255
"""The widest window whose row sums fit 16 bits."""


def check_avg_pool(op: AvgPool2d | AvgPool2dUp, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether the row sums of an average pool fit 16 bits."""
    width = op.kernel[1]
    row_fits = Verdict("kernel_width", width <= MOST_PIXELS, f"at most {MOST_PIXELS}", str(width))
    return (*check_pool(op, arithmetic), row_fits)


# --- movement ---------------------------------------------------------------------------------------------------------


def matrices(op: Transpose) -> tuple[int, int, int] | None:
    """Returns batch, rows and columns if the op transposes matrices, otherwise None."""
    steps = contiguous_steps(op.x.shape)
    walk = tuple(steps[a] for a in op.order), contiguous_steps(op.y.shape)
    extent, (x_steps, _) = collapsed(op.y.shape, list(walk))
    batch, columns, rows = (1,) * (3 - len(extent)) + extent if len(extent) <= 3 else (0, 0, 0)
    return (batch, rows, columns) if x_steps[-2:] == (1, columns) else None


def check_transpose(op: Transpose, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether a transpose exchanges two axes, or two groups of adjacent axes."""
    two_axes = Verdict(
        "order", matrices(op) is not None, "two axes or groups of axes change places", str(op.order)
    )
    return (*int8(x=op.x), two_axes)


def calls_transpose(op: Transpose, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of the kernel that transposes matrices."""
    sizes = matrices(op)
    assert sizes is not None
    return (
        Call(
            DSP.routine("transpose_s8"),
            dict(zip(("batch", "rows", "columns"), sizes, strict=True)),
            (op.x,),
            op.y,
        ),
    )


KERNELS: tuple[Kernel, ...] = (
    *TABLE.kernels(),
    DSP.kernel(Add, calls_sum, check_sum, name="sum", in_place=in_place_full),
    DSP.kernel(Sub, calls_sum, check_sum, name="sum", in_place=in_place_full),
    DSP.kernel(WideAdd, calls_wide_sum, check_wide_sum, name="wide_add", in_place=in_place_wide),
    DSP.kernel(
        WideMul,
        lambda op, arithmetic: sums_int16.calls_product(DSP, op),
        sums_int16.check_product,
        name="wide_mul",
        in_place=in_place_wide,
    ),
    DSP.kernel(Mul, calls_mul, check_mul, name="mul", in_place=in_place_full),
    DSP.kernel(Requantize, TABLE.requantize, check_requantize, name="lut", in_place=in_place_unary),
    DSP.kernel(Clamp, TABLE.clamp, check_clamp, name="lut", in_place=in_place_unary),
    DSP.kernel(Quantize, DSP.port(calls_quantize), check_quantize, name="quantize", in_place=in_place_unary),
    DSP.kernel(Dequantize, DSP.port(calls_dequantize), check_dequantize, name="dequantize"),
    DSP.kernel(AvgPool2d, POOL, check_avg_pool, name="avg_pool2d"),
    DSP.kernel(AvgPool2dUp, POOL, check_avg_pool, name="avg_pool2d_up"),
    DSP.kernel(Transpose, calls_transpose, check_transpose, name="transpose"),
    DSP.kernel(MaxPool2d, POOL, check_pool, name="max_pool2d"),
)
