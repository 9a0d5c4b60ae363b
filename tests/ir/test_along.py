# SPDX-License-Identifier: Apache-2.0
"""What ops say of themselves along an axis is what they do: rows of every example of every op, made from the rows that it names alone."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest

from pillion.errors import PillionError
from pillion.ir.along import Along
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.rows import Span
from pillion.ir.types import Array, DType, TensorType, Value
from pillion.ops import ALL_OPS

Rng = np.random.Generator


@pytest.mark.parametrize("cls", ALL_OPS, ids=lambda cls: cls.kind)
def test_rows_are_made_from_the_rows_that_the_op_names(cls: type[Op]) -> None:
    random, seen = np.random.default_rng(5), Counter[str]()
    for op in cls.examples():
        for operand in op.activations:
            for axis in range(operand.type.rank):
                seen[want_rows(op, operand, axis, random)] += 1
    assert seen["rows"] > 0 or cls.kind == "detections"
    if cls.kind in ("conv2d", "depthwise_conv2d", "max_pool2d", "pad"):
        assert seen["padded"] > 0


def want_rows(op: Op, operand: Value, axis: int, random: Rng) -> str:
    course = op.along(operand, axis)
    if isinstance(course, str):
        assert len(course) > 10
        return "refused"
    try:
        data = {v: random_like(v, random) for v in op.activations}
        whole = op.reference(Arithmetic.CMSIS_NN, *given(op, data))
    except (ValueError, PillionError):  # an arithmetic without this op
        return "no reference"
    size = op.results[0].shape[course.axis]
    done = "none"
    for first in range(0, size, course.unit):
        span = Span(first, min(course.unit * int(random.integers(1, 4)), size - first))
        rows = course.rows_for(span)
        if rows.end > operand.shape[axis] or (rows.first < 0 and course.outside is None):
            continue
        made = rows_of(op, data, course, span)
        if made is None:
            continue
        got = np.asarray(made)
        assert np.array_equal(got, np.take(whole, range(span.first, span.end), axis=course.axis)), (
            op,
            axis,
            span,
        )
        done = "padded" if "padded" in (done, "padded" if rows.first < 0 else "") else "rows"
    return done


def rows_of(op: Op, data: dict[Value, Array], course: Along, span: Span) -> Array | None:
    """What the op makes of the rows that it names; None where a constant has other numbers for each row."""
    y, parts, arrays = op.results[0], {}, {}
    for v in op.activations:
        own, axis = own_course(op, v, course.axis)
        arrays[v] = data[v] if own is None or v.shape[axis] == 1 else taken(data[v], axis, own, span)
        parts[v] = Value(v.name, TensorType(arrays[v].shape, v.dtype, v.type.quant))
    shape = tuple(span.count if a == course.axis else d for a, d in enumerate(y.shape))
    result = {y: Value(y.name, TensorType(shape, y.dtype, y.type.quant))}
    made = dataclasses.replace(op.substitute({**parts, **result}), **op.all_inside(course.axis, span.count))
    try:
        made.check()
        inferred = made.infer()
    except PillionError:
        return None
    if inferred.shape != shape:
        return None
    return made.reference(Arithmetic.CMSIS_NN, *given(made, {parts[v]: a for v, a in arrays.items()}))


def own_course(op: Op, operand: Value, result_axis: int) -> tuple[Along | None, int]:
    for axis in range(operand.type.rank):
        found = op.along(operand, axis)
        if isinstance(found, Along) and found.axis == result_axis:
            return found, axis
    return None, 0


def taken(array: Array, axis: int, course: Along, span: Span) -> Array:
    rows = course.rows_for(span)
    missing = max(-rows.first, 0)
    shape = tuple(missing if a == axis else d for a, d in enumerate(array.shape))
    outside = np.full(shape, course.outside if missing else 0, array.dtype)
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


def test_what_has_padding_says_how_far() -> None:
    course = Along(1, extent=5, stride=2, front=3)
    assert course.rows_for(Span(0, 2)) == Span(-3, 7)
    assert course.first_after(0) == 2
    assert course.first_after(4) == 4
    assert Along(1, unit=2).first_after(3) == 6
    assert Along(1, front=-4).first_after(2) == 0
