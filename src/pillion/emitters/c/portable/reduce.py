# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of sums and extrema over any axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import INT8_XY, dtypes
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.emitters.c.reduction_blocks import is_tile, partial_sum_params
from pillion.emitters.c.strides import as_int32_array, collapsed, contiguous_steps, few_axes
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType, Shape
from pillion.ir.verdict import Verdict
from pillion.ops.reduce import ExtremumReduction, ReduceMax, ReduceMin, ReduceSum, Reduction


def routine(op: Reduction, arithmetic: Arithmetic) -> str:
    """Returns the routine of a reduction, or of one tile of it, in the graph's arithmetic."""
    if not isinstance(op, ReduceSum):
        return f"{op.kind}{'_rows' * op.is_part}_s8"
    if arithmetic is Arithmetic.CMSIS_NN:
        return "mean_rows_s8" if op.is_part else "reduce_sum_s8"
    return f"reduce_sum{'_rows' * op.is_part}_{'tflite' if arithmetic is Arithmetic.TFLITE else 'once'}_s8"


def scale(op: ReduceSum, arithmetic: Arithmetic) -> Params:
    """Returns the scale of a sum as parameters in arithmetics that round once."""
    if arithmetic is Arithmetic.TFLITE:
        return {"ratio": np.array([op.ratio], np.float64)}
    if arithmetic is Arithmetic.TFLITE_INTEGER:
        return {"multiplier": op.multiplier.mantissa, "right": 31 - op.multiplier.shift}
    return {}


def params(op: Reduction, arithmetic: Arithmetic) -> Params:
    """Returns the parameters of a sum, minimum or maximum over any axes."""
    (kept_extent, [kept_step]), (extent, [step]) = reduction_axes(op)
    return {
        **{"results": op.y.type.elements, "kept_axes": len(kept_extent), "axes": len(extent)},
        **{"kept_extent": as_int32_array(kept_extent), "kept_step": as_int32_array(kept_step)},
        **{"extent": as_int32_array(extent), "step": as_int32_array(step)},
        **(scale(op, arithmetic) if isinstance(op, ReduceSum) else {}),
    }


def sum_tile_params(op: ReduceSum, arithmetic: Arithmetic) -> Params:
    """Returns the parameters with which a tile is added to the partial sums, which are rescaled after the last one."""
    return {**partial_sum_params(op), **scale(op, arithmetic)}


def extremum_tile_params(op: ExtremumReduction) -> Params:
    """Returns the parameters with which the extrema of the tiles before are updated."""
    assert op.part is not None
    inner = op.folded_bytes
    return {
        **{"reduced": op.x.type.elements // inner, "inner": inner},
        **{"is_first": int(op.part.is_first), "is_last": int(op.part.is_last)},
    }


def reduction_axes(op: Reduction) -> list[tuple[Shape, list[Shape]]]:
    """Returns sizes and steps in x, first of the kept axes, then of the reduced ones."""
    every, steps = range(op.x.type.rank), contiguous_steps(op.x.shape)
    sides = ([a for a in every if a not in op.axes], [a for a in every if a in op.axes])
    return [collapsed(tuple(op.x.shape[a] for a in axes), [tuple(steps[a] for a in axes)]) for axes in sides]


def few_reduction_axes(op: Reduction) -> tuple[Verdict, ...]:
    """Checks the number of axes of a reduction."""
    return few_axes(*(len(extent) for extent, _ in reduction_axes(op)))


def of_extreme(op: ExtremumReduction) -> Verdict:
    """Checks whether an extremum reduces one tile."""
    return Verdict("rows", op.is_part, "some of an extreme's", "all")


INT8_OR_BOOL = dtypes("x y", DType.INT8, DType.BOOL)
TILE: dict[str, Any] = {"scratch_bytes": lambda op: op.folded_bytes, "is_tiled": True}
"""Tiled reductions keep their partial results in scratch memory."""

KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(ReduceSum, routine, params, requires=(INT8_XY, few_reduction_axes)),
    *(
        PORTABLE.kernel(op, routine, params, requires=(INT8_OR_BOOL, few_reduction_axes))
        for op in (ReduceMax, ReduceMin)
    ),
    PORTABLE.kernel(
        ReduceSum, routine, sum_tile_params, requires=(is_tile, INT8_XY), name="reduce_sum_rows", **TILE
    ),
    *(
        PORTABLE.kernel(
            op,
            routine,
            extremum_tile_params,
            requires=(of_extreme, INT8_OR_BOOL),
            name=f"{op.kind}_rows",
            **TILE,
        )
        for op in (ReduceMax, ReduceMin)
    ),
)
