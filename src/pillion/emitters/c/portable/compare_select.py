# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of comparisons, selections, extrema positions, gathers and integer arithmetic."""

from __future__ import annotations

import math

from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.kernel_conditions import all_int8, int8
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.emitters.c.portable.elementwise import (
    TABLE,
    broadcast_params,
    broadcast_walk,
    in_place_binary,
)
from pillion.emitters.c.portable.normalize import int64_fields
from pillion.emitters.c.portable.walk import WalkRows, rows_of
from pillion.emitters.c.strides import broadcast_steps, numbers
from pillion.emitters.c.table_lookup import check_scalar
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType, Value
from pillion.ir.verdict import Verdict
from pillion.ops.compare_select import ArgMax, ArgMin, Compare, Place, Top, TopPlaces, TopValues, Where
from pillion.ops.embedding_bag import Bag
from pillion.ops.indexing import SOURCES, Cast, Gather
from pillion.ops.integer_arithmetic import Calculation, Whole

BYTES = (DType.INT8, DType.BOOL, DType.UINT8)
"""Element types of one byte."""

# --- comparisons ------------------------------------------------------------------------------------------------------


def calls_compare(op: Compare, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a comparison: of quantized values at a common scale, or of plain numbers."""
    params: Params = {**broadcast_params(op), "relation": op.relation.outcomes}
    if op.a.dtype is DType.INT32:
        return (Call(PORTABLE.routine("compare_s32"), params, (op.a, op.b), op.y),)
    a_key, b_key = op.keys(arithmetic)
    keyed: Params = {**params, "a_key": a_key, "b_key": b_key}
    return (Call(PORTABLE.routine("compare_s8"), keyed, (op.a, op.b), op.y),)


def check_compare(op: Compare, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks the operands' element types and scales, and the number of axes."""
    wanted = "int8 with one scale, int32 or bool"
    is_known = op.a.dtype is op.b.dtype and op.a.dtype in (DType.INT8, DType.INT32, DType.BOOL)
    is_known = is_known and op.a.is_quantized is op.b.is_quantized is (op.a.dtype is DType.INT8)
    got = f"{op.a.dtype.value} and {op.b.dtype.value}"
    return (Verdict("operands", is_known, wanted, got), *broadcast_walk(op).few_axes)


def in_place_compare(op: Compare) -> tuple[Value, ...]:
    """Returns the operands whose memory the booleans may overwrite."""
    return in_place_binary(op) if op.a.dtype in BYTES else ()


def calls_compare_scalar(op: Compare, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the table lookup of a comparison with a constant scalar."""
    return TABLE.with_scalar(op, arithmetic)


def check_compare_scalar(op: Compare, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether int8 is compared with a constant scalar, and whether a table is worth its size."""
    return tuple(v for v in check_scalar(op, arithmetic) if v.rule != op.y.name)


# --- whole numbers ----------------------------------------------------------------------------------------------------

CALCULATIONS = {calculation: code for code, calculation in enumerate(Calculation)}
"""Integer operation → its code in the kernel."""


def calls_integer_arithmetic(op: Whole, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of integer arithmetic."""
    params: Params = {**broadcast_params(op), "calculation": CALCULATIONS[op.calculation]}
    return (Call(PORTABLE.routine("whole_s32"), params, (op.a, op.b), op.y),)


def check_integer_arithmetic(op: Whole, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks the element types of integer arithmetic and the number of axes."""
    types = {v.dtype for v in (op.a, op.b, op.y)}
    got = " and ".join(sorted(dtype.value for dtype in types))
    return (Verdict("operands", types == {DType.INT32}, "int32", got), *broadcast_walk(op).few_axes)


# --- one of two -------------------------------------------------------------------------------------------------------


def where_walk(op: Where) -> WalkRows:
    """Returns the walk over the condition and both operands."""
    return rows_of(op.y.shape, [broadcast_steps(v.shape, op.y.shape) for v in (op.condition, op.a, op.b)])


def calls_where(op: Where, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a selection between two tensors."""
    rows, names = where_walk(op), ("condition", "a", "b")
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


def check_where(op: Where, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks the element types of a selection and the number of axes."""
    is_bool = op.condition.dtype is DType.BOOL
    same = op.a.dtype is op.b.dtype is op.y.dtype
    return (
        Verdict("condition", is_bool, "bool", op.condition.dtype.value),
        Verdict("types", same, "a, b and y have one type", f"{op.a.dtype.value} and {op.b.dtype.value}"),
        *where_walk(op).few_axes,
    )


# --- places -----------------------------------------------------------------------------------------------------------


def axis_sizes(op: Place) -> Params:
    """Returns the number of elements before, along and behind the axis of an argmax or argmin."""
    shape = op.x.shape
    return {
        "outer": math.prod(shape[: op.axis]),
        "size": shape[op.axis],
        "inner": math.prod(shape[op.axis + 1 :]),
    }


def calls_extremum_index(op: Place, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of an argmax or argmin."""
    return (Call(PORTABLE.routine(f"{op.kind}_s8"), axis_sizes(op), (op.x,), op.y),)


def check_int8_operand(op: Place | TopPlaces, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether the operand of an argmax, argmin or top-k is int8."""
    return int8(x=op.x)


def calls_top(op: Top, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a top-k along rows."""
    size = op.x.shape[-1]
    params: Params = {
        "rows": op.x.type.elements // size,
        "size": size,
        "k": op.k,
        "largest": int(op.largest),
    }
    return (Call(PORTABLE.routine(f"{op.kind}_s8"), params, (op.x,), op.y),)


# --- by numbers -------------------------------------------------------------------------------------------------------


def calls_gather(op: Gather, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a gather."""
    batch, outer, size, inner, count = op.sizes
    params: Params = {
        "batch": batch,
        "outer": outer,
        "size": size,
        "count": count,
        "inner_bytes": inner * op.x.dtype.size_bytes,
    }
    return (Call(PORTABLE.routine("gather"), params, (op.x, op.indices), op.y),)


def check_gather(op: Gather, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether the indices of a gather are int32."""
    return (Verdict("indices", op.indices.dtype is DType.INT32, "int32", op.indices.dtype.value),)


def calls_embedding_bag(op: Bag, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of an embedding bag."""
    rows, elements = op.table.shape
    params: Params = {
        **{"bags": math.prod(op.indices.shape[:-1]), "words": op.words, "rows": rows, "elements": elements},
        **{"places": op.places, **int64_fields(op.offset, "offset"), "multipliers": op.multipliers},
    }
    return (Call(PORTABLE.routine("bag_s8"), params, (op.table, op.indices), op.y),)


def check_embedding_bag(op: Bag, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks the element types of an embedding bag, and whether its table is constant."""
    constant = Verdict("table", op.table.is_constant, "a constant", "computed")
    numbers_of = Verdict("indices", op.indices.dtype is DType.INT32, "int32", op.indices.dtype.value)
    return (*int8(table=op.table, y=op.y), constant, numbers_of)


CODES = {DType.BOOL: 0, DType.UINT8: 1, DType.INT32: 2, DType.FLOAT32: 3, DType.INT8: 4, DType.INT16: 5}
"""Element type → its code in the kernel."""


def calls_cast(op: Cast, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a cast."""
    params: Params = {"count": op.y.type.elements, "from": CODES[op.x.dtype], "to": CODES[op.to]}
    return (Call(PORTABLE.routine("cast"), params, (op.x,), op.y),)


def check_cast(op: Cast, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether the operand of a cast has an integer type."""
    is_whole = op.x.dtype in SOURCES
    return (Verdict("x", is_whole, ", ".join(t.value for t in SOURCES), op.x.dtype.value),)


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(Compare, calls_compare_scalar, check_compare_scalar, name="compare_by_table"),
    PORTABLE.kernel(Compare, calls_compare, check_compare, in_place=in_place_compare),
    PORTABLE.kernel(Whole, calls_integer_arithmetic, check_integer_arithmetic, in_place=in_place_binary),
    PORTABLE.kernel(Where, calls_where, check_where),
    PORTABLE.kernel(ArgMax, calls_extremum_index, check_int8_operand),
    PORTABLE.kernel(ArgMin, calls_extremum_index, check_int8_operand),
    PORTABLE.kernel(TopValues, calls_top, all_int8),
    PORTABLE.kernel(TopPlaces, calls_top, check_int8_operand),
    PORTABLE.kernel(Gather, calls_gather, check_gather),
    PORTABLE.kernel(Bag, calls_embedding_bag, check_embedding_bag),
    PORTABLE.kernel(Cast, calls_cast, check_cast),
)
