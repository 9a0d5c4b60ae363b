# SPDX-License-Identifier: Apache-2.0
"""Access maps hold: each example of each op makes its rows from the elements that its maps name alone."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import numpy as np
import pytest

from pillion.errors import PillionError
from pillion.ir.access import AxisMap, ListedMap, Span
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value, constant_value
from pillion.ops import ALL_OPS, Add, ArgMax, Conv2d, Gather, Linear, Pad, Softmax, Transpose
from pillion.ops.example_values import conv_weights, value
from pillion.streams.time_axes import time_map

Rng = np.random.Generator


def test_listed_axis_maps_end_with_their_last_element() -> None:
    listed = ListedMap(1, firsts=(0, 2, 5), lasts=(1, 4, 7))
    assert listed.reach(Span(1, 2)) == listed.reach(Span(1, 9)) == Span(2, 6)
    assert listed.reach(Span(3, 2)) == Span(8, 0)


@pytest.mark.parametrize("cls", ALL_OPS, ids=lambda cls: cls.kind)
def test_rows_are_made_from_the_rows_that_the_op_names(cls: type[Op]) -> None:
    random, seen = np.random.default_rng(5), Counter[str]()
    for op in cls.examples():
        for operand in op.activations:
            for axis in range(operand.type.rank):
                seen[require_rows(op, operand, axis, random)] += 1
    assert seen["rows"] > 0 or cls.kind == "detections"
    if cls.kind in ("conv2d", "depthwise_conv2d", "max_pool2d", "pad"):
        assert seen["padded"] > 0


def require_rows(op: Op, operand: Value, axis: int, random: Rng) -> str:
    axis_map = time_map(op, operand, axis)
    if isinstance(axis_map, str):
        assert len(axis_map) > 10
        return "refused"
    try:
        data = {v: random_like(v, random) for v in op.activations}
        whole = op.reference(Arithmetic.CMSIS_NN, *given(op, data))
    except (ValueError, PillionError):  # an arithmetic without this op
        return "no reference"
    size = op.results[0].shape[axis_map.axis]
    done = "none"
    for first in range(0, size, axis_map.unit):
        span = Span(first, min(axis_map.unit * int(random.integers(1, 4)), size - first))
        rows = axis_map.reach(span)
        if rows.end > operand.shape[axis] or (rows.first < 0 and axis_map.padding_level is None):
            continue
        made = made_of(op, data, axis_map, span)
        if made is None:
            continue
        got = np.asarray(made)
        assert np.array_equal(got, np.take(whole, range(span.first, span.end), axis=axis_map.axis)), (
            op,
            axis,
            span,
        )
        done = "padded" if "padded" in (done, "padded" if rows.first < 0 else "") else "rows"
    return done


def made_of(op: Op, data: dict[Value, Array], axis_map: AxisMap, span: Span) -> Array | None:
    """What the op makes of the rows that it names; None where a constant has other numbers for each row."""
    y, parts, arrays = op.results[0], {}, {}
    for v in op.activations:
        own, axis = map_to(op, v, axis_map.axis)
        arrays[v] = data[v] if own is None or v.shape[axis] == 1 else taken(data[v], axis, own, span)
        parts[v] = Value(v.name, TensorType(arrays[v].shape, v.dtype, v.type.quant))
    shape = tuple(span.count if a == axis_map.axis else d for a, d in enumerate(y.shape))
    result = {y: Value(y.name, TensorType(shape, y.dtype, y.type.quant))}
    made = dataclasses.replace(
        op.substitute({**parts, **result}), **op.tile(axis_map.axis, Span(0, span.count), (0, 0))
    )
    try:
        made.check()
        inferred = made.infer()
    except PillionError:
        return None
    if inferred.shape != shape:
        return None
    return made.reference(Arithmetic.CMSIS_NN, *given(made, {parts[v]: a for v, a in arrays.items()}))


def map_to(op: Op, operand: Value, result_axis: int) -> tuple[AxisMap | None, int]:
    for axis in range(operand.type.rank):
        found = time_map(op, operand, axis)
        if isinstance(found, AxisMap) and found.axis == result_axis:
            return found, axis
    return None, 0


def taken(array: Array, axis: int, axis_map: AxisMap, span: Span) -> Array:
    rows = axis_map.reach(span)
    missing = max(-rows.first, 0)
    shape = tuple(missing if a == axis else d for a, d in enumerate(array.shape))
    outside = np.full(shape, axis_map.padding_level if missing else 0, array.dtype)
    return np.concatenate(
        [outside, np.take(array, range(max(rows.first, 0), rows.end), axis=axis)], axis=axis
    )


def given(op: Op, data: dict[Value, Array]) -> list[Array]:
    return [v.constant if v.is_constant else data[v] for v in op.operands]


def random_like(value: Value, random: Rng) -> Array:
    if value.dtype is DType.FLOAT32:
        return random.normal(0, 3, value.shape).astype(np.float32)
    low, high = value.dtype.bounds
    return random.integers(max(low, -1000), min(high, 1000) + 1, value.shape).astype(value.dtype.numpy)


def test_windows_say_how_far_they_reach() -> None:
    found = AxisMap(1, low=-3, high=1, stride=2)
    assert found.padding_before == 3
    assert found.reach(Span(0, 2)) == Span(-3, 7)
    assert found.clipped_reach(Span(0, 2), 10) == Span(0, 4)
    assert found.clipped_reach(Span(3, 2), 6) == Span(3, 3)
    assert (found.padding_counts(Span(0, 2), 10), found.padding_counts(Span(3, 2), 6)) == ((3, 0), (0, 4))
    assert (found.first_after(0), found.first_after(4)) == (2, 4)
    assert AxisMap(1, unit=2).first_after(3) == 6
    assert AxisMap(1, low=4, high=4).first_after(2) == 0


def test_tiles_read_an_element_at_least_but_where_padding_alone_makes_them() -> None:
    behind = AxisMap(1, unit=2)
    assert behind.clipped_reach(Span(8, 2), 4) == Span(3, 1)
    alone = AxisMap(1, low=-2, high=-2, least=0)
    assert (alone.clipped_reach(Span(0, 2), 4), alone.padding_counts(Span(0, 2), 4)) == (Span(0, 0), (2, 0))
    assert (alone.clipped_reach(Span(6, 3), 4), alone.padding_counts(Span(6, 3), 4)) == (Span(4, 0), (0, 3))


X = value("x", (1, 6, 4, 3), 0.1, 0)
PLACES = Value("places", TensorType((4,), DType.INT32))
FLAT = value("flat", (1, 6, 12), 0.1, 0)
REFUSED: dict[str, tuple[type[Op], dict[str, object], str]] = {
    "a window beside the image": (
        Conv2d,
        {
            "weights": conv_weights((2, 1, 1, 3), 0, 1),
            "bias": constant_value("b", np.zeros(2, np.int32)),
            "padding": (1, 0, 0, 0),
        },
        "a window sees no row of the image",
    ),
    "computed weights": (
        Linear,
        {
            "x": FLAT,
            "weights": value("w", (5, 12), 0.1, 0),
            "bias": constant_value("b", np.zeros(5, np.int32)),
        },
        "each row is made from all of `w`",
    ),
    "a table of rows": (
        Gather,
        {
            "x": constant_value("table", np.zeros((1, 6, 9), np.int8), PerTensor(0.1)),
            "indices": PLACES,
            "axis": 2,
        },
        "a constant has other numbers for each row",
    ),
    "rows of fewer axes": (
        Add,
        {"a": X, "b": value("b", (6, 1, 1), 0.1, 0)},
        "an operand of 3 axes has rows of its own",
    ),
    "more images": (Pad, {"before": (0, 0, 0, 0), "after": (1, 0, 0, 0)}, "it makes 2 images of 1"),
    "axes": (Transpose, {"order": (0, 2, 1, 3)}, "it moves axes: [1, 6, 4, 3] becomes [1, 4, 6, 3]"),
    "all rows": (ArgMax, {"axis": 1}, "its rows: it looks through them all"),
    "two axes": (Softmax, {"x": value("x", (4, 6), 0.1, 0)}, "a tensor of 2 axes has no rows"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_ops_that_cannot_make_some_rows_alone_say_why(case: str) -> None:
    cls, fields, why = REFUSED[case]
    given_fields: dict[str, Any] = fields if {"x", "a"} & set(fields) else {"x": X, **fields}
    dtype = DType.INT32 if cls is ArgMax else DType.INT8
    draft = cls(y=Value("y", TensorType((), dtype, PerTensor(0.1))), **given_fields)
    op = draft.substitute(
        {draft.results[0]: Value("y", dataclasses.replace(draft.results[0].type, shape=draft.infer().shape))}
    )
    assert op.why_not_tileable == why
