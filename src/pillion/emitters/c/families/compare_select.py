# SPDX-License-Identifier: Apache-2.0
"""The kernels of comparisons, selections, extrema positions, gathers and integer arithmetic."""

from __future__ import annotations

import math

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import (
    INT8_X,
    check_all_int8,
    check_constants,
    has_dtypes,
    is_within,
)
from pillion.emitters.c.kernel_library import MVE, PORTABLE
from pillion.emitters.c.strides import as_int32_array, broadcast_steps
from pillion.emitters.c.table_lookup import TableLookup, check_scalar, scalar_operands
from pillion.emitters.c.walk import WalkRows, few_walk_axes, rows_of
from pillion.ir.nibbles import pack_rows
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType, Value
from pillion.ir.verdict import Verdict
from pillion.ops.compare_select import ArgExtremum, ArgMax, ArgMin, Compare, TopK, TopPlaces, TopValues, Where
from pillion.ops.embedding_bag import EmbeddingBag
from pillion.ops.indexing import SOURCES, Cast, Gather
from pillion.ops.integer_arithmetic import Calculation, IntegerArithmetic
from pillion.ops.run_lengths import RunLengths
from pillion.ops.suppression import NonMaxSuppression

BYTES = (DType.INT8, DType.BOOL, DType.UINT8)
"""Element types of one byte."""

# --- comparisons ------------------------------------------------------------------------------------------------------


def compare_params(op: Compare, arithmetic: Arithmetic) -> Params:
    """Returns the parameters of a comparison: of quantized values at a common scale, or of plain numbers."""
    relation = {"relation": op.relation.outcomes}
    if op.a.dtype is DType.INT32:
        return relation
    if op.a.dtype is DType.INT16:
        return relation | dict(zip(("a_multiplier", "b_multiplier"), op.unit_multipliers, strict=True))
    return relation | dict(zip(("a_key", "b_key"), op.keys(arithmetic), strict=True))


COMPARED = (DType.INT8, DType.INT16, DType.INT32, DType.BOOL)
QUANTIZED = (DType.INT8, DType.INT16)


def width_of(value: Value) -> str:
    """Returns the ending of the routines of an element type."""
    return f"s{8 * value.dtype.size_bytes}"


def are_comparable(op: Compare) -> Verdict:
    """Checks the operands' element types and scales."""
    requirement = "int8 or int16 with one scale, int32 or bool"
    is_known = op.a.dtype is op.b.dtype and op.a.dtype in COMPARED
    is_known = is_known and op.a.is_quantized is op.b.is_quantized is (op.a.dtype in QUANTIZED)
    return Verdict("operands", is_known, requirement, f"{op.a.dtype.value} and {op.b.dtype.value}")


def in_place_compare(op: Compare) -> tuple[Value, ...]:
    """Returns the operands whose memory the booleans may overwrite."""
    same = (v for v in (op.a, op.b) if not v.is_constant and v.shape == op.y.shape)
    return tuple(dict.fromkeys(same)) if op.a.dtype in BYTES else ()


def check_compare_scalar(op: Compare, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether int8 is compared with a constant scalar, and whether a table is worth its size."""
    return tuple(v for v in check_scalar(op, arithmetic) if v.rule != op.y.name)


# --- whole numbers ----------------------------------------------------------------------------------------------------

CALCULATIONS = {calculation: code for code, calculation in enumerate(Calculation)}
"""Integer operation → its code in the kernel."""


def integer_params(op: IntegerArithmetic) -> Params:
    """Returns the parameters of integer arithmetic."""
    return {"calculation": CALCULATIONS[op.calculation]}


def all_int32(op: IntegerArithmetic) -> Verdict:
    """Checks the element types of integer arithmetic."""
    types = {v.dtype for v in (op.a, op.b, op.y)}
    return Verdict(
        "operands", types == {DType.INT32}, "int32", " and ".join(sorted(dtype.value for dtype in types))
    )


# --- one of two -------------------------------------------------------------------------------------------------------


def where_walk(op: Where) -> WalkRows:
    """Returns the walk over the condition and both operands."""
    return rows_of(op.y.shape, [broadcast_steps(v.shape, op.y.shape) for v in (op.condition, op.a, op.b)])


def where_params(op: Where) -> Params:
    """Returns the parameters of a selection between two tensors."""
    rows, names = where_walk(op), ("condition", "a", "b")
    steps = dict(zip((f"{name}_step" for name in names), rows.step, strict=True))
    row_steps = {
        f"{name}_row_step": as_int32_array(step) for name, step in zip(names, rows.row_step, strict=True)
    }
    return {**rows.params, "element_bytes": op.y.dtype.size_bytes, **steps, **rows.axes, **row_steps}


def one_type(op: Where) -> Verdict:
    """Checks whether operands and result of a selection have one element type."""
    same = op.a.dtype is op.b.dtype is op.y.dtype
    return Verdict("types", same, "a, b and y have one type", f"{op.a.dtype.value} and {op.b.dtype.value}")


# --- places -----------------------------------------------------------------------------------------------------------


def axis_sizes(op: ArgExtremum) -> Params:
    """Returns the number of elements before, along and behind the axis of an argmax or argmin."""
    before, size, behind = op.x.shape[: op.axis], op.x.shape[op.axis], op.x.shape[op.axis + 1 :]
    return {"outer": math.prod(before), "size": size, "inner": math.prod(behind)}


def top_params(op: TopK) -> Params:
    """Returns the parameters of a top-k along rows."""
    size = op.x.shape[-1]
    return {"rows": op.x.type.elements // size, "size": size, "largest": int(op.largest)}


def suppression_params(op: NonMaxSuppression) -> Params:
    """Returns the parameters of a non-maximum suppression."""
    boxes = op.scores.shape[-1]
    return {
        **{"images": op.scores.type.elements // boxes, "boxes": boxes, "most": op.most},
        **{"threshold": op.threshold, "share": op.share},
    }


def run_params(op: RunLengths) -> Params:
    """Returns the parameters of run lengths."""
    size = op.x.shape[-1]
    return {"rows": op.x.type.elements // size, "size": size, "most": op.most}


# --- by numbers -------------------------------------------------------------------------------------------------------


def gather_params(op: Gather) -> Params:
    """Returns the parameters of a gather."""
    names = ("batch", "outer", "size", "inner_bytes", "count")
    sizes = dict(zip(names, op.sizes, strict=True))
    return {**sizes, "inner_bytes": sizes["inner_bytes"] * op.x.dtype.size_bytes}


def bag_params(op: EmbeddingBag) -> Params:
    """Returns the parameters of an embedding bag."""
    rows, elements = op.table.shape
    return {
        **{"bags": math.prod(op.bag_shape), "rows": rows, "elements": elements},
        "multipliers": op.multipliers,
    }


CODES = {DType.BOOL: 0, DType.UINT8: 1, DType.INT32: 2, DType.FLOAT32: 3, DType.INT8: 4, DType.INT16: 5}
"""Element type → its code in the kernel."""


def cast_params(op: Cast) -> Params:
    """Returns the parameters of a cast."""
    return {"from": CODES[op.x.dtype], "to": CODES[op.to]}


def is_castable(op: Cast) -> Verdict:
    """Checks whether the operand of a cast has an integer type."""
    return Verdict("x", op.x.dtype in SOURCES, ", ".join(t.value for t in SOURCES), op.x.dtype.value)


LEAST_RESULTS, MOST_SIZE = 2, 8192
"""The fewest rows for which Helium pays, and the longest row whose offsets of eight elements fit 16 bits."""
IN_EIGHTS = (
    INT8_X,
    lambda op: is_within("results", op.y.type.elements, LEAST_RESULTS),
    lambda op: is_within("size", op.x.shape[op.axis], most=MOST_SIZE),
)
INT16_X = has_dtypes("x", DType.INT16)
INT32_INDICES = has_dtypes("indices", DType.INT32)

KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(
        Compare,
        "lut_s8",
        TableLookup(PORTABLE).scalar_binary_call,
        requires=(check_compare_scalar,),
        operands=scalar_operands,
        name="compare_by_table",
    ),
    PORTABLE.kernel(
        Compare,
        lambda op: f"compare_{width_of(op.a)}",
        compare_params,
        requires=(are_comparable, few_walk_axes),
        in_place=in_place_compare,
    ),
    PORTABLE.kernel(
        IntegerArithmetic,
        "integer_arithmetic_s32",
        integer_params,
        name="integer_arithmetic",
        requires=(all_int32, few_walk_axes),
        in_place="a b",
    ),
    PORTABLE.kernel(
        Where,
        "where",
        where_params,
        requires=(has_dtypes("condition", DType.BOOL), one_type, lambda op: where_walk(op).few_axes),
    ),
    *(
        library.kernel(op, f"{op.kind}_s8", axis_sizes, requires=requires)
        for op in (ArgMax, ArgMin)
        for library, requires in ((PORTABLE, (INT8_X,)), (MVE, IN_EIGHTS))
    ),
    *(PORTABLE.kernel(op, f"{op.kind}_s16", axis_sizes, requires=(INT16_X,)) for op in (ArgMax, ArgMin)),
    *(
        PORTABLE.kernel(op, f"{op.kind}_s16", top_params, requires=(INT16_X,))
        for op in (TopValues, TopPlaces)
    ),
    PORTABLE.kernel(TopValues, f"{TopValues.kind}_s8", top_params, requires=(check_all_int8,)),
    PORTABLE.kernel(TopPlaces, f"{TopPlaces.kind}_s8", top_params, requires=(INT8_X,)),
    *(
        PORTABLE.kernel(
            NonMaxSuppression,
            f"{NonMaxSuppression.kind}_s{bits}",
            suppression_params,
            requires=(has_dtypes("boxes scores", dtype),),
            scratch_bytes=lambda op: op.scores.shape[-1],
        )
        for bits, dtype in ((8, DType.INT8), (16, DType.INT16))
    ),
    PORTABLE.kernel(
        RunLengths,
        "run_lengths_s32",
        run_params,
        requires=(has_dtypes("x", DType.INT32),),
        name="run_lengths",
    ),
    PORTABLE.kernel(Gather, "gather", gather_params, requires=(INT32_INDICES,)),
    PORTABLE.kernel(
        EmbeddingBag,
        "embedding_bag_s8",
        bag_params,
        requires=(has_dtypes("table y", DType.INT8), check_constants("table"), INT32_INDICES),
    ),
    PORTABLE.kernel(
        EmbeddingBag,
        "embedding_bag_s4",
        lambda op: {**bag_params(op), "table": pack_rows(op.table.constant)},
        requires=(
            *(has_dtypes("table", DType.INT4), has_dtypes("y", DType.INT8)),
            *(check_constants("table"), INT32_INDICES),
        ),
        operands="indices",
    ),
    PORTABLE.kernel(Cast, "cast", cast_params, requires=(is_castable,)),
)
