# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of elementwise ops, pooling, softmax and data movement."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from pillion.emitters.c import sums_int16
from pillion.emitters.c.kernel import Call, CallCost, Kernel, Params, scaling
from pillion.emitters.c.kernel_conditions import int8
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.mve.sum_factors import LEVELS, Factors, find_factors
from pillion.emitters.c.portable import elementwise as portable_elementwise
from pillion.emitters.c.portable import movement as portable_movement
from pillion.emitters.c.portable import pool as portable_pool
from pillion.emitters.c.portable import prelu as portable_prelu
from pillion.emitters.c.rowwise_params import rows_params, rows_verdict
from pillion.emitters.c.table_lookup import TableLookup, check_clamp, check_requantize, in_place_unary
from pillion.ir.numerics import INT32_MAX, Arithmetic, wrap32
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.clamp import Clamp
from pillion.ops.elementwise import ADD_LEFT_SHIFT, Add, Mul, Sub, Sum
from pillion.ops.formats import Dequantize, Quantize, Requantize
from pillion.ops.movement import Concat, Pad, Slice, Transpose
from pillion.ops.pool import AvgPool2d, AvgPool2dUp, MaxPool2d
from pillion.ops.prelu import Prelu
from pillion.ops.softmax import Softmax
from pillion.ops.wide_add import WideAdd
from pillion.ops.wide_lut import WideLut
from pillion.ops.wide_mul import WideMul

MOST_COLUMNS, MOST_PIXELS = 256, 4096
"""The largest window: row sums of int8 fit 16 bits, and the mean of that many pixels is exact in float32."""
OVERREAD_BYTES = 15


TABLE = TableLookup(MVE, is_unsigned=True)
POOL = MVE.port(portable_pool.calls_pool)

# --- two operands -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def factors(op: Sum, arithmetic: Arithmetic) -> Factors | None:
    """Returns the factors and the constant that compute a sum exactly; None if there are none."""
    grid = LEVELS.astype(np.int8)
    whole: Any = {"low": -128, "high": 127}
    wanted = replace(op, **whole).reference(arithmetic, grid[:, None], grid).astype(np.int64)
    return find_factors(wanted, *op.slopes)


def check_sum(op: Sum, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether two factors compute a sum exactly for all pairs."""
    known = (*int8(a=op.a, b=op.b, y=op.y), rows_verdict(op))
    if not all_ok(known):
        return known
    is_found = factors(op, arithmetic) is not None
    return (*known, Verdict("factors", is_found, "exact for all pairs", "found" if is_found else "none"))


def calls_sum(op: Sum, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of the sum kernel with two factors."""
    found = factors(op, arithmetic)
    assert found is not None
    numbers: Params = {"a_factor": found.a, "b_factor": found.b, "constant": found.kernel_constant}
    params = {**rows_params(op), **numbers, "low": op.low, "high": op.high}
    return (Call(MVE.routine("add_s8"), params, (op.a, op.b), op.y),)


def check_sum_rescaled(op: Sum, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether a sum is rescaled without left shifts."""
    known = (*int8(a=op.a, b=op.b, y=op.y), rows_verdict(op))
    return (*known, no_left_shift(*(m.shift for m in op.rescale))) if all_ok(known) else known


def no_left_shift(*shifts: int) -> Verdict:
    """Checks whether all shifts are right shifts of at most 31."""
    return Verdict(
        "right_shift", max(shifts) <= 0 and min(shifts) >= -31, "0 to 31", ", ".join(str(-s) for s in shifts)
    )


def sign_correction(shift: int) -> int:
    """Returns 1 for a right shift, whose rounding needs the sign correction, otherwise 0."""
    return int(shift < 0)


def calls_sum_rescaled(op: Sum, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of the kernel that rescales both operands and then the sum."""
    names, multipliers = ("a", "b", "out"), op.rescale
    params: Params = {
        **rows_params(op),
        **{
            f"{name}_{part}": getattr(m, field)
            for name, m in zip(names, multipliers, strict=True)
            for part, field in (("multiplier", "mantissa"), ("shift", "shift"))
        },
        **{"a_offset": -op.a.zero_point << ADD_LEFT_SHIFT, "b_offset": -op.b.zero_point << ADD_LEFT_SHIFT},
        **{f"{name}_fix": sign_correction(m.shift) for name, m in zip(names, multipliers, strict=True)},
        **{"out_zp": op.y.zero_point, "b_sign": type(op).sign, "low": op.low, "high": op.high},
    }
    return (Call(MVE.routine("add_rescaled_s8"), params, (op.a, op.b), op.y),)


LOW_BITS = 16
"""The bits of the lower halves of multipliers."""


def halves(number: int) -> tuple[int, int]:
    """Returns a number as a signed lower half and the upper half modulo 2^32."""
    half = 1 << LOW_BITS >> 1
    low = (number + half) % (1 << LOW_BITS) - half
    return low, int(wrap32(number - low >> LOW_BITS))


def check_wide_sum(op: WideAdd, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether products with lower halves, and the sum of the upper ones, fit 32 bits."""
    known = sums_int16.check_sum(op, arithmetic, LOW_BITS, LOW_BITS + 31, lambda places: LOW_BITS + 31)
    if not all_ok(known):
        return known
    parts = [abs(halves(number)[0]) for number in (*op.multipliers, op.offset)]
    largest = parts[0] * -op.a.dtype.bounds[0] + parts[1] * -op.b.dtype.bounds[0] + parts[2]
    fits = Verdict("halves", largest <= INT32_MAX, "below 2^31", f"up to {largest}")
    return (*known, fits)


def calls_wide_sum(op: WideAdd, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a 16-bit sum, with multipliers and offset in halves."""
    ordered = sums_int16.wider_first(op)
    numbers = (*ordered.multipliers, op.offset)
    parts = {
        f"{name}_{part}": half
        for name, number in zip(("a", "b", "offset"), numbers, strict=True)
        for part, half in zip(("low", "high"), halves(number), strict=True)
    }
    params: Params = {**sums_int16.row_params(ordered.op), **parts, "shift": LOW_BITS - op.places}
    return (Call(MVE.routine("wide_add"), params, (ordered.op.a, ordered.op.b), op.y),)


def check_mul(op: Mul, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether a product is rescaled without left shifts."""
    known = (*int8(a=op.a, b=op.b, y=op.y), rows_verdict(op))
    return (*known, no_left_shift(op.multiplier(arithmetic).shift)) if all_ok(known) else known


def calls_mul(op: Mul, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of the product kernel."""
    m = op.multiplier(arithmetic)
    params: Params = {
        **rows_params(op),
        **{"a_zp": op.a.zero_point, "b_zp": op.b.zero_point, "multiplier": m.mantissa, "shift": m.shift},
        **{"out_zp": op.y.zero_point, "fix": sign_correction(m.shift), "low": op.low, "high": op.high},
    }
    return (Call(MVE.routine("mul_s8"), params, (op.a, op.b), op.y),)


# --- slopes -----------------------------------------------------------------------------------------------------------


def check_prelu(op: Prelu, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether there is one slope, or one for each element along the last axis."""
    in_rows = op.slope.type.elements == op.slope_shape[-1]
    got = f"{list(op.slope.shape)} for {list(op.x.shape)}"
    return (*int8(x=op.x, slope=op.slope, y=op.y), Verdict("slopes", in_rows, "along the last axis", got))


def calls_prelu(op: Prelu, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a PReLU."""
    count = op.slope.type.elements
    plain, sloped = op.multipliers(arithmetic)
    pairs = {
        "multiplier": (plain.mantissa, sloped.mantissa),
        "right": (min(plain.shift, 0), min(sloped.shift, 0)),
        "left": (max(plain.shift, 0), max(sloped.shift, 0)),
        "fix": (sign_correction(plain.shift), sign_correction(sloped.shift)),
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


def calls_clamp(op: Clamp, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a clamp: a comparison, or a table lookup if the scale changes."""
    if op.x.quant != op.y.quant:
        return TABLE.clamp(op, arithmetic)
    return MVE.port(portable_elementwise.calls_clamp)(op, arithmetic)


def check_quantize(op: Quantize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether the graph rounds as the kernel does: LiteRT rounds ties away from zero. The kernel flushes
    subnormal inputs to zero, so the scale must be large enough that they quantize to zero."""
    rounding = Verdict(
        "arithmetic", arithmetic is Arithmetic.CMSIS_NN, Arithmetic.CMSIS_NN.value, arithmetic.value
    )
    reciprocal = portable_elementwise.reciprocal(op)
    return (*int8(y=op.y), rounding, Verdict("scale", reciprocal < 1e30, "above 1e-30", repr(op.y.scale)))


# --- pooling ----------------------------------------------------------------------------------------------------------


def check_max_pool(op: MaxPool2d, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether a max pool maps int8 to int8."""
    return int8(x=op.x, y=op.y)


def check_avg_pool(op: AvgPool2d | AvgPool2dUp, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether an average pool's window is small enough for exact sums and means."""
    rows, columns = op.kernel
    fits = columns <= MOST_COLUMNS and rows * columns <= MOST_PIXELS
    wanted = f"at most {MOST_COLUMNS} wide and {MOST_PIXELS} pixels"
    return (*int8(x=op.x, y=op.y), Verdict("window", fits, wanted, f"{rows}x{columns}"))


# --- softmax ----------------------------------------------------------------------------------------------------------


def calls_softmax(op: Softmax, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of the softmax kernel."""
    params = {
        **portable_pool.row_sizes(op),
        "places": op.places,
        "factor": op.factor,
        **scaling(op.multiplier),
    }
    return (Call(MVE.routine("softmax_s8"), params, (op.x,), op.y),)


def exponentials_bytes(op: Softmax) -> int:
    """Returns the scratch bytes for the exponentials of a row, in complete vectors."""
    return 16 * -(-op.x.shape[-1] // 4)


# --- movement ---------------------------------------------------------------------------------------------------------


def calls_copies(op: Transpose | Slice | Concat | Pad, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the calls of an op's strided copies."""
    if isinstance(op, Pad):
        return tuple(_copy(call) for call in portable_movement.calls_pad(op, arithmetic))
    return tuple(_copy(call) for call in portable_movement.calls_copies(op, arithmetic))


def _copy(call: Call) -> Call:
    is_copy = call.routine.name == "pillion_strided_copy"
    return Call(MVE.routine("strided_copy"), call.params, call.inputs, call.output) if is_copy else call


KERNELS: tuple[Kernel, ...] = (
    *TABLE.kernels(),
    MVE.kernel(Add, calls_sum, check_sum, in_place=portable_elementwise.in_place_binary),
    MVE.kernel(Sub, calls_sum, check_sum, in_place=portable_elementwise.in_place_binary),
    MVE.kernel(
        Add,
        calls_sum_rescaled,
        check_sum_rescaled,
        name="add_rescaled",
        in_place=portable_elementwise.in_place_binary,
    ),
    MVE.kernel(
        Sub,
        calls_sum_rescaled,
        check_sum_rescaled,
        name="sub_rescaled",
        in_place=portable_elementwise.in_place_binary,
    ),
    MVE.kernel(WideAdd, calls_wide_sum, check_wide_sum, in_place=portable_elementwise.in_place_wide),
    MVE.kernel(
        WideMul,
        lambda op, arithmetic: sums_int16.calls_product(MVE, op),
        sums_int16.check_product,
        in_place=portable_elementwise.in_place_wide,
    ),
    MVE.kernel(
        WideLut,
        MVE.port(portable_elementwise.calls_wide_lut),
        portable_elementwise.check_wide_lut,
        in_place=in_place_unary,
    ),
    MVE.kernel(Mul, calls_mul, check_mul, in_place=portable_elementwise.in_place_binary),
    MVE.kernel(Prelu, calls_prelu, check_prelu, in_place=portable_prelu.in_place),
    MVE.kernel(Clamp, calls_clamp, check_clamp, in_place=in_place_unary),
    MVE.kernel(Requantize, TABLE.requantize, check_requantize, in_place=in_place_unary),
    MVE.kernel(
        Quantize, MVE.port(portable_elementwise.calls_quantize), check_quantize, in_place=in_place_unary
    ),
    MVE.kernel(
        Dequantize, MVE.port(portable_elementwise.calls_dequantize), portable_elementwise.check_dequantize
    ),
    MVE.kernel(MaxPool2d, POOL, check_max_pool, overread_bytes=OVERREAD_BYTES, call_cost=CallCost(60.0)),
    MVE.kernel(AvgPool2d, POOL, check_avg_pool, overread_bytes=OVERREAD_BYTES),
    MVE.kernel(AvgPool2dUp, POOL, check_avg_pool, overread_bytes=OVERREAD_BYTES),
    MVE.kernel(
        Softmax,
        calls_softmax,
        portable_pool.check_softmax,
        scratch_bytes=exponentials_bytes,
        in_place=portable_pool.in_place_softmax,
        overread_bytes=OVERREAD_BYTES,
    ),
    MVE.kernel(Concat, calls_copies, portable_movement.check_copies, call_cost=CallCost(180.0)),
    MVE.kernel(Slice, calls_copies, portable_movement.check_copies),
    MVE.kernel(Pad, calls_copies, portable_movement.check_copies),
    MVE.kernel(Transpose, calls_copies, portable_movement.check_copies),
)
