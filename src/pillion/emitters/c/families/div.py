# SPDX-License-Identifier: Apache-2.0
"""The kernels of divisions by a tensor. With vectors, they are multiplications: a factor for each of the 256 divisors,
proven for all dividends."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import INT16_ABY, check_all_int8, short_circuit
from pillion.emitters.c.kernel_library import DSP, MVE, PORTABLE
from pillion.emitters.c.strides import as_int32_array, broadcast_steps, few_axes, merge_contiguous_axes
from pillion.emitters.c.table_lookup import EVERY_INT8
from pillion.emitters.c.walk import broadcast_walk
from pillion.ir.numerics import INT32_MAX, Arithmetic, Int64Array
from pillion.ir.types import Shape
from pillion.ir.verdict import Verdict
from pillion.ops.div import Div, reciprocal_table


def params(op: Div, arithmetic: Arithmetic) -> Params:
    """Returns the parameters of a division in the graph's arithmetic."""
    extent, (a_step, b_step) = quotient_axes(op)
    walk: Params = {"elements": op.y.type.elements, "axes": len(extent)}
    walk = {
        **walk,
        "extent": as_int32_array(extent),
        "a_step": as_int32_array(a_step),
        "b_step": as_int32_array(b_step),
    }
    if arithmetic.is_tflite and not op.is_wide:
        return {**walk, "reciprocals": as_int32_array(reciprocal_table())}
    return {**walk, "ratio": np.array([op.ratio], np.float32)}


def quotient_axes(op: Div) -> tuple[Shape, list[Shape]]:
    """Returns the merged axes of the result, and the operands' steps along them."""
    return merge_contiguous_axes(op.y.shape, [broadcast_steps(v.shape, op.y.shape) for v in (op.a, op.b)])


PLACES = 23
"""The right shift of a product: slopes below 256 fit 32 bits."""
HALF = 1 << PLACES >> 1
LEVELS = EVERY_INT8.astype(np.int64)
TABLE_BYTES = 1024


@lru_cache(maxsize=64)
def reciprocal_factors(op: Div, arithmetic: Arithmetic) -> Int64Array | None:
    """Returns the factors with which (a * factor + HALF) >> PLACES are the levels of all quotients, for b from -128
    on; None if one divisor has none."""
    grid = EVERY_INT8
    full_range: Any = {"low": -128, "high": 127}
    quotients = (
        replace(op, **full_range).reference(arithmetic, grid, grid[:, None]).astype(np.int64)
    )  # by divisor
    a = LEVELS - op.a.zero_point
    least = (quotients - op.y.zero_point << PLACES) - HALF
    most = least + (1 << PLACES) - 1
    up, down = a > 0, a < 0
    if not (quotients[:, a == 0] == op.y.zero_point).all():
        return None
    # Saturated levels bound a factor on one side only.
    from_below, from_above = quotients > -128, quotients < 127
    lows = np.full(quotients.shape, -INT32_MAX)
    highs = np.full(quotients.shape, INT32_MAX)
    divide = np.where(a == 0, 1, a)
    np.copyto(lows, -(-least // divide), where=from_below & up)
    np.copyto(lows, -(-most // divide), where=from_above & down)
    np.copyto(highs, most // divide, where=from_above & up)
    np.copyto(highs, least // divide, where=from_below & down)
    low, high = np.maximum(lows.max(axis=1), -INT32_MAX), np.minimum(highs.min(axis=1), INT32_MAX)
    return (low + high) // 2 if (low <= high).all() else None


def walks_rows(op: Div) -> Verdict:
    """Checks whether both operands are walked in rows, with a divisor for each element or for each row."""
    walk = broadcast_walk(op)
    is_plain = walk.step in ((1, 1), (1, 0)) and len(walk.extent) <= 1
    requirement = "equal shapes, whole rows again and again, or a divisor for each row"
    return Verdict("broadcast", is_plain, requirement, f"{list(op.a.shape)} and {list(op.b.shape)}")


def has_factors(op: Div, arithmetic: Arithmetic) -> Verdict:
    """Checks whether factors compute all quotients exactly."""
    is_found = reciprocal_factors(op, arithmetic) is not None
    return Verdict("factors", is_found, "exact for all pairs", "found" if is_found else "none")


def factor_params(op: Div, arithmetic: Arithmetic) -> Params:
    """Returns the walk and the factors, for b from 0 to 127 and from -128 on."""
    factor_table, walk = reciprocal_factors(op, arithmetic), broadcast_walk(op)
    assert factor_table is not None
    a_row_step, b_row_step = (step[0] if step else 0 for step in walk.row_step)
    return {
        **walk.params,
        **{"a_row_step": a_row_step, "b_row_step": b_row_step, "b_step": walk.step[1]},
        "factors": np.roll(factor_table, 128).astype(np.int32),
    }


EXACT_FACTORS = short_circuit(check_all_int8, walks_rows, has_factors)
KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(
        Div,
        lambda op, arithmetic: "div_tflite_s8" if arithmetic.is_tflite else "div_s8",
        params,
        requires=(check_all_int8, lambda op: few_axes(len(quotient_axes(op)[0]))),
        in_place="a b",
    ),
    PORTABLE.kernel(
        Div,
        "div_s16",
        params,
        requires=(INT16_ABY, lambda op: few_axes(len(quotient_axes(op)[0]))),
        in_place="a b",
    ),
    *(
        library.kernel(
            Div,
            "div_s8",
            factor_params,
            requires=(EXACT_FACTORS,),
            in_place="a b",
            also=also,
            extra_flash=lambda op: TABLE_BYTES,
        )
        for library, also in ((DSP, ("clamp",)), (MVE, ()))
    ),
)
