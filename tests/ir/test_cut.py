# SPDX-License-Identifier: Apache-2.0
"""An op that makes some rows of another's result makes just those rows: every example of every op, at random rows."""

from __future__ import annotations

import numpy as np
import pytest

from pillion.errors import PillionError
from pillion.ir.cut import cut
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.rows import ROWS, Span
from pillion.ir.types import DType, Value
from pillion.ops import ALL_OPS

ROW_LOCAL = [cls for cls in ALL_OPS if any(not op.crosses_rows for op in cls.examples())]
NEVER = {
    "bag",
    "batch_matmul",
    "lstm_cell",
    "lstm_output",
    "svdf_memory",
    "svdf_output",
    "detections",
}


def test_nearly_all_ops_have_rows() -> None:
    assert {cls.kind for cls in ALL_OPS} - {cls.kind for cls in ROW_LOCAL} == NEVER


@pytest.mark.parametrize("cls", ALL_OPS, ids=lambda cls: cls.kind)
def test_rows_are_those_of_the_whole(cls: type[Op]) -> None:
    random = np.random.default_rng(11)
    for op in cls.examples():
        if op.crosses_rows:
            assert len(op.crosses_rows) > 8
            continue
        for arithmetic in Arithmetic:
            want_rows(op, arithmetic, random)


def want_rows(op: Op, arithmetic: Arithmetic, random: np.random.Generator) -> None:
    data = {v: random_like(v, random) for v in op.activations}
    try:
        whole = op.reference(arithmetic, *(v.constant if v.is_constant else data[v] for v in op.operands))
    except (ValueError, PillionError):  # an arithmetic without this op
        return
    unit, size = op.row_unit, op.results[0].shape[ROWS]
    for _ in range(6):
        first = unit * int(random.integers(0, size // unit))
        span = Span(first, min(unit * int(random.integers(1, 4)), size - first))
        image = int(random.integers(0, op.results[0].shape[0]))
        made = cut(op, span)
        made.op.check()
        assert made.op.infer().shape == made.op.results[0].shape
        operands = [
            v.constant if v.is_constant else part(data[v], image, made.spans[v], made.parts[v].shape, op)
            for v in op.operands
        ]
        got = made.op.reference(arithmetic, *operands)
        assert np.array_equal(got, whole[image : image + 1, span.first : span.end]), (op, span)


def part(data: np.ndarray, image: int, span: Span | None, shape: tuple[int, ...], op: Op) -> np.ndarray:
    missing = max(op.results[0].type.rank - data.ndim, 0)
    if not missing:
        data = data[image if data.shape[0] > 1 else 0][None]
    if span is not None:
        data = np.take(data, range(span.first, span.end), axis=ROWS - missing)
    assert data.shape == shape
    return data


def random_like(value: Value, random: np.random.Generator) -> np.ndarray:
    if value.dtype is DType.FLOAT32:
        return random.normal(0, 3, value.shape).astype(np.float32)
    low, high = value.dtype.bounds
    return random.integers(max(low, -1000), min(high, 1000) + 1, value.shape).astype(value.dtype.numpy)
