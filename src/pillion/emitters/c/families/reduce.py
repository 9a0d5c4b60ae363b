# SPDX-License-Identifier: Apache-2.0
"""Kernels of means, sums and extrema. Portable ones reduce any axes; vector kernels reduce adjacent axes, as blocks
[outer, reduced, inner]."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import numpy as np

from pillion.emitters.c.channel_scaling import MOST_SHIFT, SUM_LIMIT
from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import (
    INT8_XY,
    INT16_XY,
    Check,
    all_of,
    fixed_point,
    has_dtypes,
    in_arithmetic,
    shifted_right,
    short_circuit,
)
from pillion.emitters.c.kernel_library import DSP, MVE, PORTABLE, Library
from pillion.emitters.c.mve.pack import OVERREAD_BYTES
from pillion.emitters.c.strides import as_int32_array, contiguous_steps, few_axes, merge_contiguous_axes
from pillion.emitters.c.walk import WalkRows, rows_of
from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType, Shape
from pillion.ir.verdict import Verdict
from pillion.ops.reduce import SUM_BYTES, ExtremumReduction, Mean, ReduceMax, ReduceMin, ReduceSum, Reduction

MeanOrSum = Mean | ReduceSum
MEANS: tuple[type[MeanOrSum], ...] = (Mean, ReduceSum)
EXTREMA: tuple[type[ExtremumReduction], ...] = (ReduceMax, ReduceMin)
INT8_OR_BOOL = has_dtypes("x y", DType.INT8, DType.BOOL)

# --- any axes ---------------------------------------------------------------------------------------------------------


def reduction_routine(op: Reduction, arithmetic: Arithmetic) -> str:
    """Returns the portable routine of a sum or extremum, or of one tile of it, in the graph's arithmetic."""
    if not isinstance(op, ReduceSum):
        return f"{op.kind}{'_rows' * op.is_part}_s8"
    if arithmetic is Arithmetic.CMSIS_NN:
        return "mean_rows_s8" if op.is_part else "reduce_sum_s8"
    return f"reduce_sum{'_rows' * op.is_part}_{'tflite' if arithmetic is Arithmetic.TFLITE else 'once'}_s8"


def sum_scale_params(op: Reduction, arithmetic: Arithmetic) -> Params:
    """Returns the scale of a sum as parameters in arithmetics that round once."""
    if not isinstance(op, ReduceSum) or arithmetic is Arithmetic.CMSIS_NN:
        return {}
    if arithmetic is Arithmetic.TFLITE:
        return {"ratio": np.array([op.ratio], np.float64)}
    return {"multiplier": op.multiplier.mantissa, "right": 31 - op.multiplier.shift}


def params(op: Reduction, arithmetic: Arithmetic) -> Params:
    """Returns the parameters of a sum, minimum or maximum over any axes."""
    (kept_extent, [kept_step]), (extent, [step]) = reduction_axes(op)
    return {
        **{"results": op.y.type.elements, "kept_axes": len(kept_extent), "axes": len(extent)},
        **{"kept_extent": as_int32_array(kept_extent), "kept_step": as_int32_array(kept_step)},
        **{"extent": as_int32_array(extent), "step": as_int32_array(step)},
        **sum_scale_params(op, arithmetic),
    }


def axes_and_steps(op: Reduction) -> Iterator[tuple[Shape, list[Shape]]]:
    """Yields sizes and steps in x, first of the kept axes, then of the reduced ones."""
    steps = contiguous_steps(op.x.shape)
    for is_reduced in (False, True):
        axes = [axis for axis in range(op.x.type.rank) if (axis in op.axes) is is_reduced]
        yield tuple(op.x.shape[a] for a in axes), [tuple(steps[a] for a in axes)]


def reduction_axes(op: Reduction) -> list[tuple[Shape, list[Shape]]]:
    """Returns sizes and steps of the kept and of the reduced axes, as few as possible."""
    return [merge_contiguous_axes(extent, steps) for extent, steps in axes_and_steps(op)]


def few_reduction_axes(op: Reduction) -> tuple[Verdict, ...]:
    """Checks the number of axes of a reduction."""
    return few_axes(*(len(extent) for extent, _ in reduction_axes(op)))


def mean_walks(op: MeanOrSum) -> tuple[WalkRows, WalkRows]:
    """Returns the walks over the kept axes and over the reduced ones. If the last axis is kept, it is the inner
    loop of the kept ones."""
    remaining, gone = (rows_of(extent, steps) for extent, steps in axes_and_steps(op))
    if remaining.step != (1,):
        row_step = ((*remaining.row_step[0], *remaining.step),)
        remaining = WalkRows(1, (1,), (*remaining.extent, remaining.count), row_step)
    return remaining, gone


def mean_params(op: MeanOrSum) -> Params:
    """Returns the parameters of a mean, or of a sum of 16 bits, over any axes."""
    remaining, gone = mean_walks(op)
    return {
        **{**remaining.params, **remaining.axes, "row_step": as_int32_array(remaining.row_step[0])},
        **{"steps": gone.count, "step": gone.step[0], "reduced": gone.rows, "reduced_axes": len(gone.extent)},
        **{"reduced_extent": as_int32_array(gone.extent), "reduced_step": as_int32_array(gone.row_step[0])},
        **mean_offset(op),
    }


def mean_offset(op: MeanOrSum) -> Params:
    """Returns the sum of the zero points of a mean or a sum as parameters."""
    return {"offset": op.count * op.x.zero_point}


def mean_is_exact(op: MeanOrSum) -> Iterator[Verdict]:
    """Checks the range of the sums of a mean and the number of its axes."""
    largest = (op.x.reach if op.x.dtype is DType.INT16 else 255) * op.count
    requirement = "between 1 and 2^31 - 1 at most"
    yield Verdict("sums", 0 < largest <= numerics.INT32_MAX, requirement, f"up to {largest}")
    for walk in mean_walks(op):
        yield from walk.few_axes


# --- tiles of rows ----------------------------------------------------------------------------------------------------


def tile_params(op: Reduction, arithmetic: Arithmetic) -> Params:
    """Returns the parameters with which a tile's rows are added to the partial results in scratch memory."""
    assert op.part is not None
    inner = op.folded_bytes // (1 if isinstance(op, ExtremumReduction) else SUM_BYTES)
    return {
        **{"reduced": op.x.type.elements // inner, "inner": inner},
        **{"is_first": int(op.part.is_first), "is_last": int(op.part.is_last)},
        **(mean_offset(op) if isinstance(op, MEANS) else {}),
        **sum_scale_params(op, arithmetic),
    }


def partial_results(lane_bytes: int) -> dict[str, Any]:
    """Returns the memory of kernels that keep partial results of tiles in scratch memory, in complete vectors."""
    return {"scratch_bytes": lambda op: lane_bytes * -(-op.folded_bytes // lane_bytes), "is_tiled": True}


# --- blocks of adjacent axes ------------------------------------------------------------------------------------------

Block = tuple[int, int, int]
"""Elements before, along and behind the reduced axes."""
LANES = 16
"""Results that the Helium kernels update together."""


def reduced_block(shape: Shape, axes: tuple[int, ...]) -> Block | None:
    """Returns the elements before, along and behind the reduced axes; None if the axes are not adjacent."""
    sizes = [(axis in axes, size) for axis, size in enumerate(shape) if size != 1]
    runs = [(gone, math.prod(size for _, size in run)) for gone, run in groupby(sizes, lambda pair: pair[0])]
    gone = [i for i, (is_gone, _) in enumerate(runs) if is_gone]
    if len(gone) > 1:
        return None
    if not gone:
        return 1, 1, math.prod(shape)
    index = gone[0]
    before, along, behind = runs[:index], runs[index], runs[index + 1 :]
    return math.prod(n for _, n in before), along[1], math.prod(n for _, n in behind)


def block_sizes(op: Reduction) -> dict[str, int]:
    """Returns the three sizes of the block as parameters."""
    block = reduced_block(op.x.shape, op.axes)
    assert block is not None, "asked only of what the kernels take"
    return dict(zip(("outer", "reduced", "inner"), block, strict=True))


def has_adjacent_axes(op: Reduction) -> Verdict:
    """Checks whether a reduction is over adjacent axes."""
    is_block = reduced_block(op.x.shape, op.axes) is not None
    return Verdict("axes", is_block, "neighbours", f"{op.axes} of {list(op.x.shape)}")


def rescales_as_mean(op: MeanOrSum, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether a sum is rescaled as means are."""
    return in_arithmetic(Arithmetic.CMSIS_NN)(op, arithmetic) if isinstance(op, ReduceSum) else ()


def in_fixed_point(op: MeanOrSum, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether a sum of 16 bits is rescaled in fixed point, as means are."""
    return (fixed_point(op, arithmetic),) if isinstance(op, ReduceSum) else ()


def sums_below(limit: int) -> Check[MeanOrSum]:
    """Returns the condition that a mean or sum reduces adjacent axes of int8, and that its sums are below a limit."""

    def fits(op: MeanOrSum) -> Verdict:
        largest = 255 * op.count
        return Verdict("sum", largest < limit, f"below {limit}", f"up to {largest}")

    return all_of(rescales_as_mean, INT8_XY, has_adjacent_axes, fits)


def doubled_sums_fit(op: MeanOrSum) -> Verdict:
    """Checks whether twice a sum of 16 bits fits 32 bits."""
    largest = op.x.reach * op.count
    return Verdict(
        "sum", 0 < largest < SUM_LIMIT, f"between 1 and {SUM_LIMIT - 1} at most", f"up to {largest}"
    )


def single_or_four(op: MeanOrSum) -> Verdict:
    """Checks whether results are computed one by one, or at least four neighbours together."""
    inner = block_sizes(op)["inner"]
    return Verdict("inner", inner not in (2, 3), "results one by one, or 4 neighbours and more", str(inner))


def extremum_params(op: ExtremumReduction, arithmetic: Arithmetic) -> Params:
    """Returns the sizes of the block, and the position of a tile among the tiles of its op."""
    if op.is_part:
        return {"outer": 1, **tile_params(op, arithmetic)}
    return {**block_sizes(op), "is_first": 1, "is_last": 1}


def extremum_kernels(library: Library, lane_bytes: int = 1, **memory: Any) -> Iterator[Kernel]:
    """Yields the kernels of minima and maxima of a library, complete or of one tile."""
    for op in EXTREMA:
        common: Any = (op, f"{op.kind}_s8", extremum_params)
        tiled = {**memory, **partial_results(lane_bytes)}
        yield library.kernel(*common, requires=(INT8_OR_BOOL,), name=f"{op.kind}_rows", **tiled)
        yield library.kernel(*common, requires=(INT8_OR_BOOL, has_adjacent_axes), **memory)


IN_WORDS = short_circuit(sums_below(2**31), shifted_right(0, 31))
"""A mean or sum over adjacent axes, as the Helium kernels compute it."""
IN_DOUBLED_WORDS = short_circuit(sums_below(SUM_LIMIT), shifted_right(1, MOST_SHIFT))
"""A mean or sum over adjacent axes, as the DSP kernels compute it."""
DSP_BLOCK = short_circuit(sums_below(SUM_LIMIT), all_of(single_or_four, shifted_right(1, MOST_SHIFT)))
WIDE_SUMS = all_of(doubled_sums_fit, shifted_right(1, MOST_SHIFT))
"""A mean or sum of 16 bits, as the DSP kernel computes it."""
LOADS: dict[str, Any] = {"overread_bytes": OVERREAD_BYTES}

KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(
        Mean, "mean_rows_s8", tile_params, requires=(INT8_XY, mean_is_exact), **partial_results(1)
    ),
    PORTABLE.kernel(Mean, "mean_s8", mean_params, requires=(INT8_XY, mean_is_exact)),
    *(
        PORTABLE.kernel(op, "mean_s16", mean_params, requires=(INT16_XY, mean_is_exact, in_fixed_point))
        for op in MEANS
    ),
    PORTABLE.kernel(
        ReduceSum,
        "reduce_sum_tflite_s16",
        params,
        requires=(INT16_XY, few_reduction_axes, in_arithmetic(Arithmetic.TFLITE)),
    ),
    *(
        PORTABLE.kernel(op, f"{op.kind}_s16", params, requires=(INT16_XY, few_reduction_axes))
        for op in EXTREMA
    ),
    *(
        PORTABLE.kernel(op, reduction_routine, params, requires=(types, few_reduction_axes))
        for op, types in ((ReduceSum, INT8_XY), (ReduceMax, INT8_OR_BOOL), (ReduceMin, INT8_OR_BOOL))
    ),
    *(
        PORTABLE.kernel(
            op,
            reduction_routine,
            tile_params,
            requires=(types,),
            name=f"{op.kind}_rows",
            **partial_results(1),
        )
        for op, types in ((ReduceSum, INT8_XY), (ReduceMax, INT8_OR_BOOL), (ReduceMin, INT8_OR_BOOL))
    ),
    *(DSP.kernel(op, "reduce_sum_s8", block_sizes, requires=(DSP_BLOCK,)) for op in MEANS),
    *(
        DSP.kernel(
            op,
            "mean_s16",
            block_sizes,
            requires=(in_fixed_point, short_circuit(INT16_XY, has_adjacent_axes, WIDE_SUMS, single_or_four)),
        )
        for op in MEANS
    ),
    *extremum_kernels(DSP),
    *(
        MVE.kernel(
            op,
            "mean_rows_s8",
            tile_params,
            requires=(rescales_as_mean, INT8_XY, shifted_right(0, 31)),
            name=f"{op.kind}_rows",
            **{**LOADS, **partial_results(SUM_BYTES * LANES)},
        )
        for op in MEANS
    ),
    *(MVE.kernel(op, "reduce_sum_s8", block_sizes, requires=(IN_WORDS,), **LOADS) for op in MEANS),
    *(
        MVE.kernel(
            op,
            "mean_s16",
            block_sizes,
            requires=(
                in_fixed_point,
                short_circuit(INT16_XY, has_adjacent_axes, mean_is_exact, shifted_right(0, 31)),
            ),
            **LOADS,
        )
        for op in MEANS
    ),
    *extremum_kernels(MVE, LANES, **LOADS),
)
