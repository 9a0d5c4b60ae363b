# SPDX-License-Identifier: Apache-2.0
"""The DSP kernels of everything that is done element by element, and of pooling."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from pillion.emitters.c import wide_sums
from pillion.emitters.c.axes import collapsed, contiguous_steps
from pillion.emitters.c.conditions import int8, overwritable
from pillion.emitters.c.dsp import pairs
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.library import DSP
from pillion.emitters.c.portable.elementwise import (
    EVERY_INT8,
    WITH_A_NUMBER,
    entries_rescaled,
    entries_with_a_number,
    in_place_with_a_number,
    judge_dequantized,
    judge_lookup,
    judge_number,
    judge_numbers,
    judge_quantized,
    judge_rescaled,
    operand_of_its_type,
    other_than_a_number,
    reciprocal,
    same_operand,
)
from pillion.emitters.c.portable.pool import judge_pool, kind_of_mean, pool
from pillion.emitters.c.portable.standardize import words
from pillion.emitters.c.rescaled import MOST_SHIFT, rounding
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, Shape, Value
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.clamp import Clamp
from pillion.ops.elementwise import Add, Binary, Mul, Sub, Sum
from pillion.ops.formats import Dequantize, Quantize, Requantize
from pillion.ops.lut import Lut
from pillion.ops.movement import Transpose
from pillion.ops.pool import AvgPool2d, AvgPool2dUp, MaxPool2d
from pillion.ops.wide_add import MOST_PLACES, WideAdd
from pillion.ops.wide_mul import WideMul

SUM, MUL = DSP.routine("sum_s8", "clamp"), DSP.routine("mul_s8", "clamp")
LUT, QUANTIZE, DEQUANTIZE = DSP.routine("lut_s8"), DSP.routine("quantize_s8"), DSP.routine("dequantize_s8")
POOLS = {kind: DSP.routine(f"{kind}_s8", "clamp") for kind in ("avg_pool2d", "avg_pool2d_up", "max_pool2d")}
TRANSPOSE, WIDE_SUM = DSP.routine("transpose_s8"), DSP.routine("wide_add")
ROUTINES = (TRANSPOSE, WIDE_SUM, SUM, MUL, LUT, QUANTIZE, DEQUANTIZE, *POOLS.values())

# --- two operands -----------------------------------------------------------------------------------------------------


def ends_with(shape: Shape, end: Shape) -> bool:
    """Whether `end`, apart from leading ones, is what `shape` ends with: its elements repeat row by row."""
    while end and end[0] == 1:
        end = end[1:]
    return not end or shape[-len(end) :] == end


def whole_and_row(op: Binary) -> tuple[Value, Value] | None:
    """Gives the operand that has the shape of the result, and the one that is its rows, if there are such."""
    for whole, part in ((op.a, op.b), (op.b, op.a)):
        if (
            math.prod(whole.shape) == op.y.type.elements
            and ends_with(op.y.shape, part.shape)
            and part.type.elements > 1
        ):
            return whole, part
    return None


def judge_shapes(op: Binary) -> tuple[Verdict, ...]:
    """Judges whether the operands have equal shapes, or one of them repeats along the last axes of the other."""
    got = f"{list(op.a.shape)} and {list(op.b.shape)}"
    fits = Verdict(
        "shapes", whole_and_row(op) is not None, "equal, or one repeats along the last axes of the other", got
    )
    return (*int8(a=op.a, b=op.b, y=op.y), fits)


def rows_of(op: Binary) -> Params:
    """Gives the parameters of a walk over the larger operand in rows as long as the smaller one."""
    _, part = whole_and_row(op) or (op.a, op.b)
    return {"rows": op.y.type.elements // part.type.elements, "count": part.type.elements}


def in_place_of_whole(op: Binary) -> tuple[Value, ...]:
    """Gives the operand whose memory the result may take over: the whole one, because rows that repeat must stay as they are."""
    whole, part = whole_and_row(op) or (op.a, op.b)
    return overwritable(op, whole, *([part] if part.type.elements == op.y.type.elements else []))


@lru_cache(maxsize=256)
def formula(op: Sum, arithmetic: Arithmetic) -> pairs.Linear | None:
    """Gives the cheap formula of a sum, for the operands in their own order, whichever of them repeats."""
    wanted = op.reference(arithmetic, EVERY_INT8[:, None], EVERY_INT8[None, :]).astype(np.int64)
    return pairs.find(wanted, op.slopes, op.low, op.high)


def judge_sum(op: Sum, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a cheap formula gives the sum of every pair of numbers."""
    shapes = judge_shapes(op)
    if not all_ok(shapes):
        return shapes
    found = formula(op, arithmetic)
    wanted = "(a x1 + b x2 + c) >> shift, right for all pairs"
    return (*shapes, Verdict("formula", found is not None, wanted, "found" if found else "none found"))


def calls_sum(op: Sum, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the sum kernel, with the larger operand first."""
    found, operands = formula(op, arithmetic), whole_and_row(op)
    assert found is not None
    assert operands is not None
    a, b = (found.a, found.b) if operands[0] is op.a else (found.b, found.a)
    last: Params = {"a": a, "b": b, "c": found.c, "shift": found.shift, "low": op.low, "high": op.high}
    return (Call(SUM, {**rows_of(op), **last}, operands, op.y),)


MOST_LEFT = 15
"""Operands of 16 bits that are shifted to the left by so many places stay in 32."""


def judge_wide_sum(op: WideAdd, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether operands can be shifted so far that what is left of their sum is in its upper word."""
    return wide_sums.judge(op, arithmetic, 32 - MOST_LEFT, MOST_PLACES, lambda places: 31 + min(places, 32))


def calls_wide_sum(op: WideAdd, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a sum in 16 bits."""
    ordered = wide_sums.wider_first(op)
    first, second = ordered.multipliers
    left, right = max(32 - op.places, 0), max(op.places - 32, 0)
    params: Params = {
        **wide_sums.rows(ordered.op),
        **{"a_multiplier": first, "b_multiplier": second},
        **words(op.offset << left, "offset"),
        **{"left": left, "right": right},
    }
    return (Call(WIDE_SUM, params, (ordered.op.a, ordered.op.b), op.y),)


def judge_mul(op: Mul, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a product is rescaled by a right shift that the kernel has."""
    shapes = judge_shapes(op)
    if not all_ok(shapes):
        return shapes
    right = -op.multiplier(arithmetic).shift
    return (
        *shapes,
        Verdict("right_shift", 1 <= right <= MOST_SHIFT, f"1 to {MOST_SHIFT}", str(right)),
    )


def calls_mul(op: Mul, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the product kernel, with the larger operand first."""
    operands, m = whole_and_row(op), op.multiplier(arithmetic)
    assert operands is not None
    params: Params = {
        **rows_of(op),
        **{"zp1": operands[0].zero_point, "zp2": operands[1].zero_point},
        **{"round": rounding(op.y.zero_point, -m.shift), "multiplier": m.mantissa, "right": -m.shift},
        **{"low": op.low, "high": op.high},
    }
    return (Call(MUL, params, operands, op.y),)


# --- one operand ------------------------------------------------------------------------------------------------------


def by_table(op: Op, x: Value, entries: Array) -> tuple[Call, ...]:
    """Gives the call of a table lookup. The table begins with what stands for 0: inputs are read as unsigned numbers."""
    y = op.results[0]
    table = np.roll(np.ascontiguousarray(entries, np.int8), 128)
    return (Call(LUT, {"count": y.type.elements, "table": table}, (x,), y),)


def calls_with_a_number(op: Op, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call for an op with one constant number: a table lookup."""
    x = other_than_a_number(op)
    assert x is not None
    return by_table(op, x, entries_with_a_number(op, arithmetic))


def calls_lut(op: Lut, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call for a function of one number: a table lookup."""
    return by_table(op, op.x, op.entries(arithmetic))


def calls_rescaled(op: Requantize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call for a change of scale: a table lookup."""
    return by_table(op, op.x, entries_rescaled(op, arithmetic))


def calls_clamped(op: Clamp, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call for a clamp that changes the scale: a table lookup."""
    return by_table(op, op.x, op.reference(arithmetic, EVERY_INT8))


def calls_quantize(op: Quantize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the kernel that makes float32 int8."""
    params: Params = {"count": op.y.type.elements, "out_zp": op.y.zero_point, "reciprocal": reciprocal(op)}
    return (Call(QUANTIZE, params, (op.x,), op.y),)


def takes_quantize(op: Quantize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether the kernel rounds as asked; it does not where LiteRT rounds ties away from zero."""
    rounding = Verdict(
        "arithmetic", arithmetic is Arithmetic.CMSIS_NN, Arithmetic.CMSIS_NN.value, arithmetic.value
    )
    return (rounding, *judge_quantized(op, arithmetic))


def calls_dequantize(op: Dequantize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the kernel that makes int8 float32."""
    params: Params = {"count": op.y.type.elements, "in_zp": op.x.zero_point, "scale": op.x.scale}
    return (Call(DEQUANTIZE, params, (op.x,), op.y),)


# --- pooling ----------------------------------------------------------------------------------------------------------

MOST_PIXELS = 255
"""The most pixels in a row of a window whose sum fits 16 bits."""


def calls_pool(op: MaxPool2d | AvgPool2d | AvgPool2dUp, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a pool: the portable kernel's parameters, another function."""
    (call,) = pool(op, arithmetic)
    return (Call(POOLS[kind_of_mean(op, arithmetic)], call.params, call.inputs, call.output),)


def takes_avg_pool(op: AvgPool2d | AvgPool2dUp, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether the sums of a row of an average pool fit in 16 bits."""
    width = op.kernel[1]
    row_fits = Verdict("kernel_width", width <= MOST_PIXELS, f"at most {MOST_PIXELS}", str(width))
    return (*judge_pool(op, arithmetic), row_fits)


# --- movement ---------------------------------------------------------------------------------------------------------


def matrices(op: Transpose) -> tuple[int, int, int] | None:
    """Gives batch, rows and columns, if the op exchanges the last two of as many axes."""
    steps = contiguous_steps(op.x.shape)
    walk = tuple(steps[a] for a in op.order), contiguous_steps(op.y.shape)
    extent, (x_steps, _) = collapsed(op.y.shape, list(walk))
    batch, columns, rows = (1,) * (3 - len(extent)) + extent if len(extent) <= 3 else (0, 0, 0)
    return (batch, rows, columns) if x_steps[-2:] == (1, columns) else None


def judge_transpose(op: Transpose, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a transpose is one of matrices: two axes, or groups of axes, change places."""
    two_axes = Verdict(
        "order", matrices(op) is not None, "two axes or groups of axes change places", str(op.order)
    )
    return (*int8(x=op.x), two_axes)


def calls_transpose(op: Transpose, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the kernel that transposes matrices."""
    sizes = matrices(op)
    assert sizes is not None
    return (Call(TRANSPOSE, dict(zip(("batch", "rows", "columns"), sizes, strict=True)), (op.x,), op.y),)


KERNELS: tuple[Kernel, ...] = (
    *(
        DSP.row(
            cls,
            calls_with_a_number,
            judge_number,
            name=f"{cls.kind}_by_table",
            in_place=in_place_with_a_number,
        )
        for cls in WITH_A_NUMBER
    ),
    DSP.row(Add, calls_sum, judge_sum, name="sum", in_place=in_place_of_whole),
    DSP.row(Sub, calls_sum, judge_sum, name="sum", in_place=in_place_of_whole),
    DSP.row(WideAdd, calls_wide_sum, judge_wide_sum, name="wide_add", in_place=operand_of_its_type),
    DSP.row(
        WideMul,
        lambda op, arithmetic: wide_sums.product_of(DSP, op),
        wide_sums.judge_product,
        name="wide_mul",
        in_place=operand_of_its_type,
    ),
    DSP.row(Mul, calls_mul, judge_mul, name="mul", in_place=in_place_of_whole),
    DSP.row(Lut, calls_lut, judge_lookup, name="lut", in_place=same_operand),
    DSP.row(Requantize, calls_rescaled, judge_rescaled, name="lut", in_place=same_operand),
    DSP.row(Clamp, calls_clamped, judge_numbers, name="lut", in_place=same_operand),
    DSP.row(Quantize, calls_quantize, takes_quantize, name="quantize", in_place=same_operand),
    DSP.row(Dequantize, calls_dequantize, judge_dequantized, name="dequantize"),
    DSP.row(AvgPool2d, calls_pool, takes_avg_pool, name="avg_pool2d"),
    DSP.row(AvgPool2dUp, calls_pool, takes_avg_pool, name="avg_pool2d_up"),
    DSP.row(Transpose, calls_transpose, judge_transpose, name="transpose"),
    DSP.row(MaxPool2d, calls_pool, judge_pool, name="max_pool2d"),
)
