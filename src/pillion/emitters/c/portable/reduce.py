# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of sums and extrema over any axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from pillion.emitters.c.kernel import Call, Kernel, Params, scaling
from pillion.emitters.c.kernel_conditions import int8, int8_or_bool
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.emitters.c.reduction_blocks import check_is_tile, partial_sum_params, tile_params
from pillion.emitters.c.strides import collapsed, contiguous_steps, few_axes, numbers
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Shape
from pillion.ir.verdict import Verdict
from pillion.ops.reduce import Extremes, ReduceMax, ReduceMin, ReduceSum, Reduction

OpClass = TypeVar("OpClass", bound=Reduction)
Calls = Callable[[OpClass, Arithmetic], tuple[Call, ...]]
Checks = Callable[[OpClass, Arithmetic], tuple[Verdict, ...]]


def calls_reduction(op: Reduction, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a sum, minimum or maximum over any axes."""
    (kept_extent, [kept_step]), (extent, [step]) = reduction_axes(op)
    params: Params = {
        "results": op.y.type.elements,
        "kept_axes": len(kept_extent),
        "kept_extent": numbers(kept_extent),
        "kept_step": numbers(kept_step),
        "count": op.count,
        "axes": len(extent),
        "extent": numbers(extent),
        "step": numbers(step),
    }
    if not isinstance(op, ReduceSum):
        return (Call(PORTABLE.routine(f"{op.kind}_s8"), params, (op.x,), op.y),)
    params = {**params, "in_zp": op.x.zero_point, "out_zp": op.y.zero_point}
    if arithmetic is Arithmetic.TFLITE:
        rounded_once: Params = {**params, "ratio": np.array([op.ratio], np.float64)}
        return (Call(PORTABLE.routine("reduce_sum_tflite_s8"), rounded_once, (op.x,), op.y),)
    if arithmetic is Arithmetic.TFLITE_INTEGER:
        once: Params = {**params, "multiplier": op.multiplier.mantissa, "right": 31 - op.multiplier.shift}
        return (Call(PORTABLE.routine("reduce_sum_once_s8"), once, (op.x,), op.y),)
    return (Call(PORTABLE.routine("reduce_sum_s8"), {**params, **scaling(op.multiplier)}, (op.x,), op.y),)


def reduction_axes(op: Reduction) -> list[tuple[Shape, list[Shape]]]:
    """Returns sizes and steps in x, first of the kept axes, then of the reduced ones."""
    every, steps = range(op.x.type.rank), contiguous_steps(op.x.shape)
    sides = ([a for a in every if a not in op.axes], [a for a in every if a in op.axes])
    return [collapsed(tuple(op.x.shape[a] for a in axes), [tuple(steps[a] for a in axes)]) for axes in sides]


def check(op: Reduction, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks the element types of a reduction and the number of its axes."""
    types = int8(x=op.x, y=op.y) if isinstance(op, ReduceSum) else int8_or_bool(x=op.x, y=op.y)
    return (*types, *few_axes(*(len(extent) for extent, _ in reduction_axes(op))))


def calls_extremum_tile(op: Extremes, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call that updates the extrema of the tiles before with one more tile."""
    assert op.part is not None
    inner = op.folded_bytes
    params: Params = {
        **{"reduced": op.x.type.elements // inner, "inner": inner},
        **{"is_first": int(op.part.is_first), "is_last": int(op.part.is_last)},
    }
    return (Call(PORTABLE.routine(f"{op.kind}_rows_s8"), params, (op.x,), op.y),)


def check_extremum_tile(op: Extremes, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether an extremum reduces one tile, and the element types."""
    return (Verdict("rows", op.is_part, "some of an extreme's", "all"), *int8_or_bool(x=op.x, y=op.y))


def calls_sum_tile(op: ReduceSum, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call that adds a tile to the partial sums, and rescales them after the last one."""
    if arithmetic is Arithmetic.TFLITE:
        exact: Params = {**partial_sum_params(op), "ratio": np.array([op.ratio], np.float64)}
        return (Call(PORTABLE.routine("reduce_sum_rows_tflite_s8"), exact, (op.x,), op.y),)
    if arithmetic is Arithmetic.TFLITE_INTEGER:
        once: Params = {
            **partial_sum_params(op),
            **{"multiplier": op.multiplier.mantissa, "right": 31 - op.multiplier.shift},
        }
        return (Call(PORTABLE.routine("reduce_sum_rows_once_s8"), once, (op.x,), op.y),)
    return (Call(PORTABLE.routine("mean_rows_s8"), tile_params(op, arithmetic), (op.x,), op.y),)


def check_sum_tile(op: ReduceSum, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether a sum reduces one tile, and the element types."""
    return (check_is_tile(op), *int8(x=op.x, y=op.y))


def tile_kernel(op: type[OpClass], calls: Calls[OpClass], check: Checks[OpClass]) -> Kernel:
    """Builds the kernel of a tiled reduction."""
    return PORTABLE.kernel(
        op,
        calls,
        check,
        name=f"{op.kind}_rows",
        scratch_bytes=lambda made: made.folded_bytes,
        is_tiled=True,
    )


KERNELS: tuple[Kernel, ...] = (
    *(PORTABLE.kernel(op, calls_reduction, check) for op in (ReduceSum, ReduceMax, ReduceMin)),
    tile_kernel(ReduceSum, calls_sum_tile, check_sum_tile),
    *(tile_kernel(op, calls_extremum_tile, check_extremum_tile) for op in (ReduceMax, ReduceMin)),
)
