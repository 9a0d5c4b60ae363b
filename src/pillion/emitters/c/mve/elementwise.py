# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of everything that is done element by element, of pooling, and of moving data."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from pillion.emitters.c import wide_sums
from pillion.emitters.c.conditions import int8
from pillion.emitters.c.in_rows import rows_params, rows_verdict
from pillion.emitters.c.kernel import Call, CallCost, Kernel, Params, scaling
from pillion.emitters.c.library import MVE
from pillion.emitters.c.mve.pairs import LEVELS, Factors, find_factors
from pillion.emitters.c.portable import elementwise as portable_elementwise
from pillion.emitters.c.portable import movement as portable_movement
from pillion.emitters.c.portable import pool as portable_pool
from pillion.emitters.c.portable import prelu as portable_prelu
from pillion.ir.numerics import INT32_MAX, Arithmetic, wrap32
from pillion.ir.op import Op
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.clamp import Clamp
from pillion.ops.elementwise import ADD_LEFT_SHIFT, Add, Mul, Sub, Sum
from pillion.ops.formats import Dequantize, Quantize, Requantize
from pillion.ops.lut import Lut
from pillion.ops.movement import Concat, Pad, Slice, Transpose
from pillion.ops.pool import AvgPool2d, AvgPool2dUp, MaxPool2d
from pillion.ops.prelu import Prelu
from pillion.ops.softmax import Softmax
from pillion.ops.wide_add import WideAdd
from pillion.ops.wide_lut import WideLut
from pillion.ops.wide_mul import WideMul

MOST_COLUMNS, MOST_PIXELS = 256, 4096
"""The largest window: a row of int8 values adds up to 16 bits; means of so many are right in float32."""
OVERREAD_BYTES = 15


# --- two operands -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def factors(op: Sum, arithmetic: Arithmetic) -> Factors | None:
    """Gives the two factors and the constant that compute a sum exactly, if there are such."""
    grid = LEVELS.astype(np.int8)
    whole: Any = {"low": -128, "high": 127}
    wanted = replace(op, **whole).reference(arithmetic, grid[:, None], grid).astype(np.int64)
    return find_factors(wanted, *op.slopes)


def takes_sum(op: Sum, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a sum can be computed by two factors, exactly for all pairs."""
    known = (*int8(a=op.a, b=op.b, y=op.y), rows_verdict(op))
    if not all_ok(known):
        return known
    is_found = factors(op, arithmetic) is not None
    return (*known, Verdict("factors", is_found, "exact for all pairs", "found" if is_found else "none"))


def sum_of(op: Sum, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the kernel that adds by two factors."""
    found = factors(op, arithmetic)
    assert found is not None
    numbers: Params = {"a_factor": found.a, "b_factor": found.b, "constant": found.kernel_constant}
    params = {**rows_params(op), **numbers, "low": op.low, "high": op.high}
    return (Call(MVE.routine("add_s8"), params, (op.a, op.b), op.y),)


def takes_any_sum(op: Sum, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a sum is rescaled without left shifts."""
    known = (*int8(a=op.a, b=op.b, y=op.y), rows_verdict(op))
    return (*known, no_left_shift(*(m.shift for m in op.rescale))) if all_ok(known) else known


def no_left_shift(*shifts: int) -> Verdict:
    """Judges whether all shifts go to the right, by at most 31."""
    return Verdict(
        "right_shift", max(shifts) <= 0 and min(shifts) >= -31, "0 to 31", ", ".join(str(-s) for s in shifts)
    )


def fix(shift: int) -> int:
    """Gives the number of the sign fix: only what is shifted to the right is rounded a second time."""
    return int(shift < 0)


def rescaled_sum(op: Sum, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the kernel that rescales both operands and then the sum."""
    names, multipliers = ("a", "b", "out"), op.rescale
    params: Params = {
        **rows_params(op),
        **{
            f"{name}_{part}": getattr(m, field)
            for name, m in zip(names, multipliers, strict=True)
            for part, field in (("multiplier", "mantissa"), ("shift", "shift"))
        },
        **{"a_offset": -op.a.zero_point << ADD_LEFT_SHIFT, "b_offset": -op.b.zero_point << ADD_LEFT_SHIFT},
        **{f"{name}_fix": fix(m.shift) for name, m in zip(names, multipliers, strict=True)},
        **{"out_zp": op.y.zero_point, "b_sign": type(op).sign, "low": op.low, "high": op.high},
    }
    return (Call(MVE.routine("add_rescaled_s8"), params, (op.a, op.b), op.y),)


LOW_BITS = 16
"""Bits of the lower halves of multipliers."""


def halves(number: int) -> tuple[int, int]:
    """Gives a number as a lower half with a sign, and the rest, modulo 2^32."""
    half = 1 << LOW_BITS >> 1
    low = (number + half) % (1 << LOW_BITS) - half
    return low, int(wrap32(number - low >> LOW_BITS))


def takes_wide_sum(op: WideAdd, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether products with lower halves fit 32 bits, and what is left of a sum behind them."""
    known = wide_sums.judge(op, arithmetic, LOW_BITS, LOW_BITS + 31, lambda places: LOW_BITS + 31)
    if not all_ok(known):
        return known
    parts = [abs(halves(number)[0]) for number in (*op.multipliers, op.offset)]
    largest = parts[0] * -op.a.dtype.bounds[0] + parts[1] * -op.b.dtype.bounds[0] + parts[2]
    fits = Verdict("halves", largest <= INT32_MAX, "below 2^31", f"up to {largest}")
    return (*known, fits)


def wide_sum(op: WideAdd, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a sum in 16 bits, by multipliers and an offset in halves."""
    ordered = wide_sums.wider_first(op)
    numbers = (*ordered.multipliers, op.offset)
    parts = {
        f"{name}_{part}": half
        for name, number in zip(("a", "b", "offset"), numbers, strict=True)
        for part, half in zip(("low", "high"), halves(number), strict=True)
    }
    params: Params = {**wide_sums.rows(ordered.op), **parts, "shift": LOW_BITS - op.places}
    return (Call(MVE.routine("wide_add"), params, (ordered.op.a, ordered.op.b), op.y),)


def wide_lookup(op: WideLut, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a function in 16 bits."""
    (call,) = portable_elementwise.wide_lookup(op, arithmetic)
    return (Call(MVE.routine("wide_lut"), call.params, call.inputs, call.output),)


def takes_product(op: Mul, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a product is rescaled without left shifts."""
    known = (*int8(a=op.a, b=op.b, y=op.y), rows_verdict(op))
    return (*known, no_left_shift(op.multiplier(arithmetic).shift)) if all_ok(known) else known


def product(op: Mul, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the product kernel."""
    m = op.multiplier(arithmetic)
    params: Params = {
        **rows_params(op),
        **{"a_zp": op.a.zero_point, "b_zp": op.b.zero_point, "multiplier": m.mantissa, "shift": m.shift},
        **{"out_zp": op.y.zero_point, "fix": fix(m.shift), "low": op.low, "high": op.high},
    }
    return (Call(MVE.routine("mul_s8"), params, (op.a, op.b), op.y),)


# --- slopes -----------------------------------------------------------------------------------------------------------


def takes_prelu(op: Prelu, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether there is one slope, or one for each element along the last axis."""
    in_rows = op.slope.type.elements == op.slope_shape[-1]
    got = f"{list(op.slope.shape)} for {list(op.x.shape)}"
    return (*int8(x=op.x, slope=op.slope, y=op.y), Verdict("slopes", in_rows, "along the last axis", got))


def prelu(op: Prelu, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the kernel of leaky relus whose slope is a tensor."""
    count = op.slope.type.elements
    plain, sloped = op.multipliers(arithmetic)
    pairs = {
        "multiplier": (plain.mantissa, sloped.mantissa),
        "right": (min(plain.shift, 0), min(sloped.shift, 0)),
        "left": (max(plain.shift, 0), max(sloped.shift, 0)),
        "fix": (fix(plain.shift), fix(sloped.shift)),
    }
    params: Params = {
        **{"rows": op.x.type.elements // count, "count": count},
        **{
            key: number
            for name, pair in pairs.items()
            for key, number in zip((name, f"slope_{name}"), pair, strict=True)
        },
        **{"in_zp": op.x.zero_point, "slope_zp": op.slope.zero_point, "out_zp": op.y.zero_point},
    }
    return (Call(MVE.routine("prelu_s8"), params, (op.x, op.slope), op.y),)


# --- one operand ------------------------------------------------------------------------------------------------------


def with_table_for_bytes(call: Call) -> Call:
    """Gives the call of a lookup with its table in the order of unsigned bytes."""
    table = call.params["table"]
    assert isinstance(table, np.ndarray)
    return Call(
        MVE.routine("lut_s8"), {**call.params, "table": np.roll(table, 128)}, call.inputs, call.output
    )


def with_a_number(op: Op, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call for an op with one constant number: a table lookup."""
    return tuple(with_table_for_bytes(call) for call in portable_elementwise.with_a_number(op, arithmetic))


def lookup(op: Lut, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call for a function of one number: a table lookup."""
    return tuple(with_table_for_bytes(call) for call in portable_elementwise.lookup(op, arithmetic))


def rescaled(op: Requantize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call for a change of scale: a table lookup."""
    return tuple(with_table_for_bytes(call) for call in portable_elementwise.rescaled(op, arithmetic))


def clamped(op: Clamp, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call for a clamp: a comparison, or a table lookup where the scale changes, too."""
    (call,) = portable_elementwise.clamped(op, arithmetic)
    if "table" in call.params:
        return (with_table_for_bytes(call),)
    return (Call(MVE.routine("clamp_s8"), call.params, call.inputs, call.output),)


def takes_quantize(op: Quantize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether the kernel rounds as asked: LiteRT rounds ties away from zero. Subnormal numbers count as zero here, and must
    come to nothing there too."""
    rounding = Verdict(
        "arithmetic", arithmetic is Arithmetic.CMSIS_NN, Arithmetic.CMSIS_NN.value, arithmetic.value
    )
    reciprocal = portable_elementwise.reciprocal(op)
    return (*int8(y=op.y), rounding, Verdict("scale", reciprocal < 1e30, "above 1e-30", repr(op.y.scale)))


def quantized(op: Quantize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the kernel that makes float32 int8."""
    reciprocal = portable_elementwise.reciprocal(op)
    params: Params = {"count": op.y.type.elements, "out_zp": op.y.zero_point, "reciprocal": reciprocal}
    return (Call(MVE.routine("quantize_s8"), params, (op.x,), op.y),)


def dequantized(op: Dequantize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the kernel that makes int8 float32."""
    (call,) = portable_elementwise.dequantized(op, arithmetic)
    return (Call(MVE.routine("dequantize_s8"), call.params, call.inputs, call.output),)


# --- pooling ----------------------------------------------------------------------------------------------------------


def pool(op: MaxPool2d | AvgPool2d | AvgPool2dUp, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a pool: the portable kernel's parameters, another function."""
    (call,) = portable_pool.pool(op, arithmetic)
    name = f"{portable_pool.kind_of_mean(op, arithmetic)}_s8"
    return (Call(MVE.routine(name), call.params, call.inputs, call.output),)


def takes_max(op: MaxPool2d, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a max pool is one of int8 images."""
    return int8(x=op.x, y=op.y)


def takes_mean(op: AvgPool2d | AvgPool2dUp, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether an average pool's window is small enough for its sums and means to be exact."""
    rows, columns = op.kernel
    fits = columns <= MOST_COLUMNS and rows * columns <= MOST_PIXELS
    wanted = f"at most {MOST_COLUMNS} wide and {MOST_PIXELS} pixels"
    return (*int8(x=op.x, y=op.y), Verdict("window", fits, wanted, f"{rows}x{columns}"))


# --- softmax ----------------------------------------------------------------------------------------------------------


def softmax(op: Softmax, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the softmax kernel."""
    params = {
        **portable_pool.softmax_rows(op),
        "places": op.places,
        "factor": op.factor,
        **scaling(op.multiplier),
    }
    return (Call(MVE.routine("softmax_s8"), params, (op.x,), op.y),)


def exponentials_bytes(op: Softmax) -> int:
    """Gives the scratch for the exponentials of a row, in whole vectors."""
    return 16 * -(-op.x.shape[-1] // 4)


# --- movement ---------------------------------------------------------------------------------------------------------


def moved(op: Transpose | Slice | Concat | Pad, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the calls of copies along strides."""
    if isinstance(op, Pad):
        return tuple(_copy(call) for call in portable_movement.filled_and_moved(op, arithmetic))
    return tuple(_copy(call) for call in portable_movement.moved(op, arithmetic))


def _copy(call: Call) -> Call:
    is_copy = call.routine.name == "pillion_strided_copy"
    return Call(MVE.routine("strided_copy"), call.params, call.inputs, call.output) if is_copy else call


KERNELS: tuple[Kernel, ...] = (
    *(
        MVE.row(
            cls,
            with_a_number,
            portable_elementwise.judge_number,
            name=f"{cls.kind}_by_table",
            in_place=portable_elementwise.in_place_with_a_number,
        )
        for cls in portable_elementwise.WITH_A_NUMBER
    ),
    MVE.row(Add, sum_of, takes_sum, in_place=portable_elementwise.either_operand),
    MVE.row(Sub, sum_of, takes_sum, in_place=portable_elementwise.either_operand),
    MVE.row(
        Add, rescaled_sum, takes_any_sum, name="add_rescaled", in_place=portable_elementwise.either_operand
    ),
    MVE.row(
        Sub, rescaled_sum, takes_any_sum, name="sub_rescaled", in_place=portable_elementwise.either_operand
    ),
    MVE.row(WideAdd, wide_sum, takes_wide_sum, in_place=portable_elementwise.operand_of_its_type),
    MVE.row(
        WideMul,
        lambda op, arithmetic: wide_sums.product_of(MVE, op),
        wide_sums.judge_product,
        in_place=portable_elementwise.operand_of_its_type,
    ),
    MVE.row(
        WideLut,
        wide_lookup,
        portable_elementwise.judge_wide_lookup,
        in_place=portable_elementwise.same_operand,
    ),
    MVE.row(Mul, product, takes_product, in_place=portable_elementwise.either_operand),
    MVE.row(Prelu, prelu, takes_prelu, in_place=portable_prelu.in_place),
    MVE.row(Lut, lookup, portable_elementwise.judge_lookup, in_place=portable_elementwise.same_operand),
    MVE.row(Clamp, clamped, portable_elementwise.judge_numbers, in_place=portable_elementwise.same_operand),
    MVE.row(
        Requantize, rescaled, portable_elementwise.judge_rescaled, in_place=portable_elementwise.same_operand
    ),
    MVE.row(Quantize, quantized, takes_quantize, in_place=portable_elementwise.same_operand),
    MVE.row(Dequantize, dequantized, portable_elementwise.judge_dequantized),
    MVE.row(MaxPool2d, pool, takes_max, overread_bytes=OVERREAD_BYTES, each_call=CallCost(60.0)),
    MVE.row(AvgPool2d, pool, takes_mean, overread_bytes=OVERREAD_BYTES),
    MVE.row(AvgPool2dUp, pool, takes_mean, overread_bytes=OVERREAD_BYTES),
    MVE.row(
        Softmax,
        softmax,
        portable_pool.judge_softmax,
        scratch_bytes=exponentials_bytes,
        in_place=portable_pool.softmax_in_place,
        overread_bytes=OVERREAD_BYTES,
    ),
    MVE.row(Concat, moved, portable_movement.judge_movement, each_call=CallCost(180.0)),
    MVE.row(Slice, moved, portable_movement.judge_movement),
    MVE.row(Pad, moved, portable_movement.judge_movement),
    MVE.row(Transpose, moved, portable_movement.judge_movement),
)
