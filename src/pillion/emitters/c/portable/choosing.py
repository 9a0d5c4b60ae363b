# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of comparisons, of what is chosen by them, and of what is looked up by numbers."""

from __future__ import annotations

import math

import numpy as np

from pillion.emitters.c.axes import broadcast_steps, numbers
from pillion.emitters.c.conditions import all_int8, int8
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.library import PORTABLE
from pillion.emitters.c.portable.elementwise import (
    EVERY_INT8,
    broadcast,
    by_table,
    either_operand,
    judge_number,
    other_than_a_number,
    pairs,
)
from pillion.emitters.c.portable.standardize import words
from pillion.emitters.c.portable.walk import Rows, rows_of
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType, Value
from pillion.ir.verdict import Verdict
from pillion.ops.bag import Bag
from pillion.ops.choosing import ArgMax, ArgMin, Compare, Place, Top, TopPlaces, TopValues, Where
from pillion.ops.indexing import SOURCES, Cast, Gather
from pillion.ops.whole import Calculation, Whole

BYTES = (DType.INT8, DType.BOOL, DType.UINT8)
"""Element types of one byte."""

# --- comparisons ------------------------------------------------------------------------------------------------------


def compared(op: Compare, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a comparison: of keys, where levels stand for real numbers, else of the numbers themselves."""
    params: Params = {**broadcast(op), "relation": op.relation.outcomes}
    if op.a.dtype is DType.INT32:
        return (Call(PORTABLE.routine("compare_s32"), params, (op.a, op.b), op.y),)
    a_key, b_key = op.keys(arithmetic)
    keyed: Params = {**params, "a_key": a_key, "b_key": b_key}
    return (Call(PORTABLE.routine("compare_s8"), keyed, (op.a, op.b), op.y),)


def judge_compared(op: Compare, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the element types of a comparison, the scales of its operands and the number of its axes."""
    wanted = "int8 with one scale, int32 or bool"
    is_known = op.a.dtype is op.b.dtype and op.a.dtype in (DType.INT8, DType.INT32, DType.BOOL)
    is_known = is_known and op.a.is_quantized is op.b.is_quantized is (op.a.dtype is DType.INT8)
    got = f"{op.a.dtype.value} and {op.b.dtype.value}"
    return (Verdict("operands", is_known, wanted, got), *pairs(op).few_axes)


def in_place_of_bytes(op: Compare) -> tuple[Value, ...]:
    """Gives the operands whose memory the booleans may take over."""
    return either_operand(op) if op.a.dtype in BYTES else ()


def compared_with_a_number(op: Compare, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a comparison with one constant number: a table lookup."""
    x = other_than_a_number(op)
    assert x is not None
    operands = (EVERY_INT8 if v is x else v.constant.reshape(1) for v in (op.a, op.b))
    return (by_table(op, x, op.reference(arithmetic, *operands).astype(np.int8)),)


def judge_compared_with_a_number(op: Compare, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether int8 is compared with one constant number, often enough to be worth a table."""
    return tuple(v for v in judge_number(op, arithmetic) if v.rule != op.y.name)


# --- whole numbers ----------------------------------------------------------------------------------------------------

CALCULATIONS = {calculation: code for code, calculation in enumerate(Calculation)}
"""The numbers by which the kernel knows calculations."""


def calculated(op: Whole, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a calculation with whole numbers."""
    params: Params = {**broadcast(op), "calculation": CALCULATIONS[op.calculation]}
    return (Call(PORTABLE.routine("whole_s32"), params, (op.a, op.b), op.y),)


def judge_calculated(op: Whole, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the element types of a calculation and the number of its axes."""
    types = {v.dtype for v in (op.a, op.b, op.y)}
    got = " and ".join(sorted(dtype.value for dtype in types))
    return (Verdict("operands", types == {DType.INT32}, "int32", got), *pairs(op).few_axes)


# --- one of two -------------------------------------------------------------------------------------------------------


def choices(op: Where) -> Rows:
    """Gives the walk through the condition and both tensors."""
    return rows_of(op.y.shape, [broadcast_steps(v.shape, op.y.shape) for v in (op.condition, op.a, op.b)])


def chosen(op: Where, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call that takes elements of one tensor or another."""
    rows, names = choices(op), ("condition", "a", "b")
    steps = dict(zip((f"{name}_step" for name in names), rows.step, strict=True))
    row_steps = {f"{name}_row_step": numbers(step) for name, step in zip(names, rows.row_step, strict=True)}
    params: Params = {
        **rows.params,
        "element_bytes": op.y.dtype.size_bytes,
        **steps,
        **rows.axes,
        **row_steps,
    }
    return (Call(PORTABLE.routine("where"), params, (op.condition, op.a, op.b), op.y),)


def judge_chosen(op: Where, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the element types of a choice and the number of its axes."""
    is_bool = op.condition.dtype is DType.BOOL
    same = op.a.dtype is op.b.dtype is op.y.dtype
    return (
        Verdict("condition", is_bool, "bool", op.condition.dtype.value),
        Verdict("types", same, "a, b and y have one type", f"{op.a.dtype.value} and {op.b.dtype.value}"),
        *choices(op).few_axes,
    )


# --- places -----------------------------------------------------------------------------------------------------------


def around(op: Place) -> Params:
    """Gives the elements before the axis along which an extreme is looked for, of it, and behind it."""
    shape = op.x.shape
    return {
        "outer": math.prod(shape[: op.axis]),
        "size": shape[op.axis],
        "inner": math.prod(shape[op.axis + 1 :]),
    }


def placed(op: Place, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call that looks for the place of an extreme."""
    return (Call(PORTABLE.routine(f"{op.kind}_s8"), around(op), (op.x,), op.y),)


def judge_places(op: Place | TopPlaces, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether places are looked for among int8 numbers."""
    return int8(x=op.x)


def topped(op: Top, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call that finds the most extreme of each row."""
    size = op.x.shape[-1]
    params: Params = {
        "rows": op.x.type.elements // size,
        "size": size,
        "k": op.k,
        "largest": int(op.largest),
    }
    return (Call(PORTABLE.routine(f"{op.kind}_s8"), params, (op.x,), op.y),)


# --- by numbers -------------------------------------------------------------------------------------------------------


def gathered(op: Gather, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call that takes slices by their numbers."""
    batch, outer, size, inner, count = op.sizes
    params: Params = {
        "batch": batch,
        "outer": outer,
        "size": size,
        "count": count,
        "inner_bytes": inner * op.x.dtype.size_bytes,
    }
    return (Call(PORTABLE.routine("gather"), params, (op.x, op.indices), op.y),)


def judge_gathered(op: Gather, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether slices are taken by int32 numbers."""
    return (Verdict("indices", op.indices.dtype is DType.INT32, "int32", op.indices.dtype.value),)


def bagged(op: Bag, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call that adds rows of a table by their numbers."""
    rows, elements = op.table.shape
    params: Params = {
        **{"bags": math.prod(op.indices.shape[:-1]), "words": op.words, "rows": rows, "elements": elements},
        **{"places": op.places, **words(op.offset, "offset"), "multipliers": op.multipliers},
    }
    return (Call(PORTABLE.routine("bag_s8"), params, (op.table, op.indices), op.y),)


def judge_bagged(op: Bag, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the element types of a bag, and whether its table is constant."""
    constant = Verdict("table", op.table.is_constant, "a constant", "computed")
    numbers_of = Verdict("indices", op.indices.dtype is DType.INT32, "int32", op.indices.dtype.value)
    return (*int8(table=op.table, y=op.y), constant, numbers_of)


CODES = {DType.BOOL: 0, DType.UINT8: 1, DType.INT32: 2, DType.FLOAT32: 3, DType.INT8: 4, DType.INT16: 5}
"""The numbers by which the kernel knows element types."""


def cast(op: Cast, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call that gives numbers another element type."""
    params: Params = {"count": op.y.type.elements, "from": CODES[op.x.dtype], "to": CODES[op.to]}
    return (Call(PORTABLE.routine("cast"), params, (op.x,), op.y),)


def judge_cast(op: Cast, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a cast is from whole numbers."""
    is_whole = op.x.dtype in SOURCES
    return (Verdict("x", is_whole, ", ".join(t.value for t in SOURCES), op.x.dtype.value),)


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.row(Compare, compared_with_a_number, judge_compared_with_a_number, name="compare_by_table"),
    PORTABLE.row(Compare, compared, judge_compared, in_place=in_place_of_bytes),
    PORTABLE.row(Whole, calculated, judge_calculated, in_place=either_operand),
    PORTABLE.row(Where, chosen, judge_chosen),
    PORTABLE.row(ArgMax, placed, judge_places),
    PORTABLE.row(ArgMin, placed, judge_places),
    PORTABLE.row(TopValues, topped, all_int8),
    PORTABLE.row(TopPlaces, topped, judge_places),
    PORTABLE.row(Gather, gathered, judge_gathered),
    PORTABLE.row(Bag, bagged, judge_bagged),
    PORTABLE.row(Cast, cast, judge_cast),
)
