# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of elementwise ops, pooling, softmax and data movement."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from pillion.emitters.c import reciprocals, sums_int16
from pillion.emitters.c.kernel import CallCost, Kernel, Params
from pillion.emitters.c.kernel_conditions import (
    INT8_ABY,
    INT8_XY,
    all_of,
    dtypes,
    in_arithmetic,
    shifted_right,
    short_circuit,
)
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.mve.pack import OVERREAD_BYTES
from pillion.emitters.c.mve.sum_factors import LEVELS, Factors, find_factors
from pillion.emitters.c.portable import elementwise as portable
from pillion.emitters.c.portable import pool as portable_pool
from pillion.emitters.c.portable.movement import copy_kernel
from pillion.emitters.c.rowwise_params import rows_verdict
from pillion.emitters.c.table_lookup import TableLookup
from pillion.ir.numerics import INT32_MAX, Arithmetic, wrap32
from pillion.ir.types import DType
from pillion.ir.verdict import Verdict
from pillion.ops.clamp import Clamp
from pillion.ops.elementwise import ADD_LEFT_SHIFT, Add, AddOrSub, Mul, Sub
from pillion.ops.formats import Dequantize, Quantize, Requantize
from pillion.ops.movement import Concat, Pad, Slice, Transpose
from pillion.ops.pool import AvgPool2d, AvgPool2dUp, MaxPool2d, Pool
from pillion.ops.prelu import Prelu
from pillion.ops.softmax import Softmax
from pillion.ops.wide_add import WideAdd
from pillion.ops.wide_lut import WideLut

MOST_COLUMNS, MOST_PIXELS = 256, 4096
"""The largest window: row sums of int8 fit 16 bits, and the mean of that many pixels is exact in float32."""


TABLE = TableLookup(MVE, is_unsigned=True)

# --- two operands -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def exact_sum_factors(op: AddOrSub, arithmetic: Arithmetic) -> Factors | None:
    """Returns the factors and the constant that compute a sum exactly; None if there are none."""
    grid = LEVELS.astype(np.int8)
    full_range: Any = {"low": -128, "high": 127}
    expected = replace(op, **full_range).reference(arithmetic, grid[:, None], grid).astype(np.int64)
    return find_factors(expected, *op.slopes)


ROWS = all_of(INT8_ABY, rows_verdict)


def has_factors(op: AddOrSub, arithmetic: Arithmetic) -> Verdict:
    """Checks whether two factors compute a sum exactly for all pairs."""
    is_found = exact_sum_factors(op, arithmetic) is not None
    return Verdict("factors", is_found, "exact for all pairs", "found" if is_found else "none")


def sum_params(op: AddOrSub, arithmetic: Arithmetic) -> Params:
    """Returns the parameters of the sum kernel with two factors."""
    factors = exact_sum_factors(op, arithmetic)
    assert factors is not None
    return {"a_factor": factors.a, "b_factor": factors.b, "constant": factors.kernel_constant}


def rescaled_params(op: AddOrSub) -> Params:
    """Returns the parameters of the kernel that rescales both operands and then the sum."""
    offsets = (("a_offset", op.a), ("b_offset", op.b))
    return {name: -value.zero_point << ADD_LEFT_SHIFT for name, value in offsets}


LOW_BITS = 16
"""The bits of the lower halves of multipliers."""


def halves(number: int) -> tuple[int, int]:
    """Returns a number as a signed lower half and the upper half modulo 2^32."""
    half = 1 << LOW_BITS >> 1
    low = (number + half) % (1 << LOW_BITS) - half
    return low, int(wrap32(number - low >> LOW_BITS))


def halves_fit(op: WideAdd) -> Verdict:
    """Checks whether products with lower halves, and the sum of the upper ones, fit 32 bits."""
    parts = [abs(halves(number)[0]) for number in (*op.multipliers, op.offset)]
    largest = parts[0] * -op.a.dtype.bounds[0] + parts[1] * -op.b.dtype.bounds[0] + parts[2]
    return Verdict("halves", largest <= INT32_MAX, "below 2^31", f"up to {largest}")


WIDE_SUM = short_circuit(
    sums_int16.sum_condition(LOW_BITS, LOW_BITS + 31, lambda places: LOW_BITS + 31), halves_fit
)


def wide_sum_params(op: WideAdd) -> Params:
    """Returns the parameters of a 16-bit sum, with multipliers and offset in halves."""
    ordered = sums_int16.wider_first(op)
    names = zip(("a", "b", "offset"), (*ordered.multipliers, op.offset), strict=True)
    parts = {
        f"{name}_{part}": half
        for name, number in names
        for part, half in zip(("low", "high"), halves(number), strict=True)
    }
    return {**sums_int16.row_params(ordered.op), **parts, "shift": LOW_BITS - op.places}


# --- slopes -----------------------------------------------------------------------------------------------------------


def slopes_in_rows(op: Prelu) -> Verdict:
    """Checks whether there is one slope, or one for each element along the last axis."""
    in_rows = op.slope.type.elements == op.slope_shape[-1]
    got = f"{list(op.slope.shape)} for {list(op.x.shape)}"
    return Verdict("slopes", in_rows, "along the last axis", got)


def prelu_params(op: Prelu, arithmetic: Arithmetic) -> Params:
    """Returns the parameters of a PReLU."""
    count = op.slope.type.elements
    scales = {
        f"{prefix}{name}": number
        for prefix, m in zip(("", "slope_"), op.multipliers(arithmetic), strict=True)
        for name, number in (
            *(("multiplier", m.mantissa), ("right", min(m.shift, 0)), ("left", max(m.shift, 0))),
            ("fix", int(m.shift < 0)),
        )
    }
    return {"rows": op.x.type.elements // count, "count": count, **scales}


# --- one operand ------------------------------------------------------------------------------------------------------


def large_scale(op: Quantize) -> Verdict:
    """Checks whether subnormal inputs, which the kernel flushes to zero, quantize to zero."""
    return Verdict("scale", portable.reciprocal(op) < 1e30, "above 1e-30", repr(op.y.scale))


# --- pooling and softmax ----------------------------------------------------------------------------------------------


def small_window(op: Pool) -> Verdict:
    """Checks whether an average pool's window is small enough for exact sums and means."""
    rows, columns = op.kernel
    fits = columns <= MOST_COLUMNS and rows * columns <= MOST_PIXELS
    requirement = f"at most {MOST_COLUMNS} wide and {MOST_PIXELS} pixels"
    return Verdict("window", fits, requirement, f"{rows}x{columns}")


def exponentials_bytes(op: Softmax) -> int:
    """Returns the scratch bytes for the exponentials of a row, in complete vectors."""
    return 16 * -(-op.x.shape[-1] // 4)


KERNELS: tuple[Kernel, ...] = (
    *TABLE.kernels(),
    *(
        MVE.kernel(op, "add_s8", sum_params, requires=(short_circuit(ROWS, has_factors),), in_place="a b")
        for op in (Add, Sub)
    ),
    *(
        MVE.kernel(
            op,
            "add_rescaled_s8",
            rescaled_params,
            requires=(short_circuit(ROWS, shifted_right(0, 31)),),
            name=f"{op.kind}_rescaled",
            in_place="a b",
        )
        for op in (Add, Sub)
    ),
    MVE.kernel(
        WideAdd,
        "wide_add",
        wide_sum_params,
        requires=(WIDE_SUM,),
        operands=sums_int16.operands,
        in_place=portable.in_place_wide,
    ),
    sums_int16.product_kernel(MVE),
    MVE.kernel(
        WideLut, "wide_lut", lambda op: {"table": op.entries}, requires=(portable.INT16_XY,), in_place="x"
    ),
    MVE.kernel(
        Mul,
        "mul_s8",
        requires=(short_circuit(ROWS, shifted_right(0, 31)),),
        in_place="a b",
    ),
    reciprocals.kernel(MVE),
    MVE.kernel(
        Prelu,
        "prelu_s8",
        prelu_params,
        requires=(dtypes("x slope y", DType.INT8), slopes_in_rows),
        in_place="x",
    ),
    MVE.kernel(
        Clamp,
        portable.clamp_routine,
        partial(portable.clamp_params, TABLE),
        requires=(INT8_XY,),
        in_place="x",
    ),
    TABLE.byte_kernel(Requantize),
    MVE.kernel(
        Quantize,
        portable.quantize_routine,
        portable.quantize_params,
        requires=(portable.INT8_Y, in_arithmetic(Arithmetic.CMSIS_NN), large_scale),
        in_place="x",
    ),
    MVE.kernel(Dequantize, "dequantize_s8", portable.real_scale, requires=portable.TO_FLOAT),
    MVE.kernel(
        MaxPool2d,
        portable_pool.pool_routine,
        requires=(INT8_XY,),
        overread_bytes=OVERREAD_BYTES,
        call_cost=CallCost(60.0),
    ),
    *(
        MVE.kernel(
            op, portable_pool.pool_routine, requires=(INT8_XY, small_window), overread_bytes=OVERREAD_BYTES
        )
        for op in (AvgPool2d, AvgPool2dUp)
    ),
    MVE.kernel(
        Softmax,
        "softmax_s8",
        portable_pool.row_sizes,
        requires=(INT8_XY, portable_pool.short_rows),
        scratch_bytes=exponentials_bytes,
        in_place="x",
        overread_bytes=OVERREAD_BYTES,
    ),
    copy_kernel(MVE, Concat, CallCost(180.0)),
    *(copy_kernel(MVE, op) for op in (Slice, Pad, Transpose)),
)
