# SPDX-License-Identifier: Apache-2.0
"""An op that makes some rows of another's result makes just those rows: every example of every op, at random rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pillion.errors import PillionError
from pillion.ir.access import ROWS, Span
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.tile import cut_tile
from pillion.ir.types import DType, Value, constant_value
from pillion.ops import ALL_OPS, ResizeBilinear, ResizeBilinearFloat, ResizeNearest, TransposeConv2d
from pillion.ops.example_values import conv_weights, make_op, value

ROW_LOCAL = [cls for cls in ALL_OPS if any(not op.why_not_tileable for op in cls.examples())]
NEVER = {
    "embedding_bag",
    "batch_matmul",
    "lstm_cell",
    "lstm_output",
    "svdf_memory",
    "svdf_output",
    "detections",
    "biquads",
    "run_lengths",
}


def test_nearly_all_ops_have_rows() -> None:
    assert {cls.kind for cls in ALL_OPS} - {cls.kind for cls in ROW_LOCAL} == NEVER


@pytest.mark.turns(3)
@pytest.mark.parametrize("cls", ALL_OPS, ids=lambda cls: cls.kind)
def test_tiles_equal_the_rows_of_the_whole_op(cls: type[Op]) -> None:
    random = np.random.default_rng(11)
    for op in cls.examples():
        if op.folded_bytes:
            continue
        if op.why_not_tileable:
            assert len(op.why_not_tileable) > 8
            continue
        for arithmetic in Arithmetic:
            require_rows(op, arithmetic, random)


def require_rows(op: Op, arithmetic: Arithmetic, random: np.random.Generator) -> None:
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
        made = cut_tile(op, span)
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


@pytest.mark.parametrize(
    "cls", [ResizeNearest, ResizeBilinear, ResizeBilinearFloat], ids=lambda cls: cls.kind
)
def test_rows_of_resizes_from_any_height_to_any_other(cls: type[Op]) -> None:
    random, tiled = np.random.default_rng(3), 0
    modes: tuple[dict[str, bool], ...] = ({}, {"half_pixel": True}, {"align_corners": True})
    for before, after in itertools.product(range(1, 8), repeat=2):
        for mode in modes:
            x, y = value("x", (1, before, 2, 1), 0.1, 0), value("y", (), 0.1, 0)
            op = make_op(cls, y, x=x, size=(after, 2), **mode)
            if not op.why_not_tileable:
                require_rows(op, Arithmetic.TFLITE, random)
                tiled += 1
    assert tiled >= 40


def test_rows_of_transposed_convolutions_of_any_geometry() -> None:
    random = np.random.default_rng(4)
    for kernel, stride, dilation, top in itertools.product((1, 2, 3), (1, 2, 4), (1, 3), (0, 1, 2)):
        x, bias = value("x", (1, 3, 2, 1), 0.1, 3), constant_value("bias", np.full(1, 400, np.int32))
        weights = conv_weights((1, kernel, 1, 1), 0, 5)
        geometry = {"stride": (stride, 1), "dilation": (dilation, 1), "padding": (top, 0, 0, 0)}
        y = value("y", (), 0.1, -2)
        try:
            op = make_op(
                TransposeConv2d,
                y,
                x=x,
                weights=weights,
                bias=bias,
                output_padding=(stride - 1, 0),
                **geometry,
            )
        except PillionError:
            continue
        require_rows(op, Arithmetic.TFLITE, random)
