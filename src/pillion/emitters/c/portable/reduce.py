# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of sums and extrema over any axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from pillion.emitters.c.axes import collapsed, contiguous_steps, few_axes, numbers
from pillion.emitters.c.blocks import judge_part, rows_added, rows_taken
from pillion.emitters.c.conditions import int8, orderly
from pillion.emitters.c.kernel import Call, Kernel, Params, scaling
from pillion.emitters.c.library import PORTABLE
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Shape
from pillion.ir.verdict import Verdict
from pillion.ops.reduce import Extremes, ReduceMax, ReduceMin, ReduceSum, Reduction

OpClass = TypeVar("OpClass", bound=Reduction)
Calls = Callable[[OpClass, Arithmetic], tuple[Call, ...]]
Takes = Callable[[OpClass, Arithmetic], tuple[Verdict, ...]]


def reduction(op: Reduction, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a sum, minimum or maximum over any axes."""
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
    """Gives sizes and steps in x, first of the axes that stay, then of those that go."""
    every, steps = range(op.x.type.rank), contiguous_steps(op.x.shape)
    sides = ([a for a in every if a not in op.axes], [a for a in every if a in op.axes])
    return [collapsed(tuple(op.x.shape[a] for a in axes), [tuple(steps[a] for a in axes)]) for axes in sides]


def judge(op: Reduction, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the element types of a reduction and the number of its axes."""
    types = int8(x=op.x, y=op.y) if isinstance(op, ReduceSum) else orderly(x=op.x, y=op.y)
    return (*types, *few_axes(*(len(extent) for extent, _ in reduction_axes(op))))


def some_rows(op: Extremes, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call that compares some rows with the extremes of those before."""
    assert op.part is not None
    inner = op.folded_bytes
    params: Params = {
        **{"reduced": op.x.type.elements // inner, "inner": inner},
        **{"is_first": int(op.part.is_first), "is_last": int(op.part.is_last)},
    }
    return (Call(PORTABLE.routine(f"{op.kind}_rows_s8"), params, (op.x,), op.y),)


def judge_some_rows(op: Extremes, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether an extreme takes some of its rows only, and the element types."""
    return (Verdict("rows", op.is_part, "some of an extreme's", "all"), *orderly(x=op.x, y=op.y))


def some_rows_of_sum(op: ReduceSum, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call that adds some rows to the sums, and scales them behind the last ones, as whole sums are scaled."""
    if arithmetic is Arithmetic.TFLITE:
        exact: Params = {**rows_added(op), "ratio": np.array([op.ratio], np.float64)}
        return (Call(PORTABLE.routine("reduce_sum_rows_tflite_s8"), exact, (op.x,), op.y),)
    if arithmetic is Arithmetic.TFLITE_INTEGER:
        once: Params = {
            **rows_added(op),
            **{"multiplier": op.multiplier.mantissa, "right": 31 - op.multiplier.shift},
        }
        return (Call(PORTABLE.routine("reduce_sum_rows_once_s8"), once, (op.x,), op.y),)
    return (Call(PORTABLE.routine("mean_rows_s8"), rows_taken(op, arithmetic), (op.x,), op.y),)


def judge_some_rows_of_sum(op: ReduceSum, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a sum takes some of its rows only, and the element types."""
    return (judge_part(op), *int8(x=op.x, y=op.y))


def row_of_parts(op: type[OpClass], calls: Calls[OpClass], takes: Takes[OpClass]) -> Kernel:
    """Makes the row of the table for some rows of a reduction."""
    return PORTABLE.row(
        op,
        calls,
        takes,
        name=f"{op.kind}_rows",
        scratch_bytes=lambda made: made.folded_bytes,
        is_for_parts=True,
    )


KERNELS: tuple[Kernel, ...] = (
    *(PORTABLE.row(op, reduction, judge) for op in (ReduceSum, ReduceMax, ReduceMin)),
    row_of_parts(ReduceSum, some_rows_of_sum, judge_some_rows_of_sum),
    *(row_of_parts(op, some_rows, judge_some_rows) for op in (ReduceMax, ReduceMin)),
)
