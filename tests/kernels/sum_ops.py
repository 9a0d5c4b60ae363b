# SPDX-License-Identifier: Apache-2.0
"""Means, sums and extrema over the first, the middle, the last and all axes, over more elements than 16 bits hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, product
from typing import Any

import numpy as np

from kernels.op_cases import Run
from pillion.ir.types import DType, TensorType
from pillion.ops.example_values import make_op, value
from pillion.ops.reduce import Mean, ReduceMax, ReduceMin, ReduceSum

ZERO_POINTS = (-128, 0, 127, -3)


def every_block() -> Iterator[Any]:
    """Means and sums, with one and with two axes that go; without results, there is nothing to see."""
    for i, shape in enumerate(block_shapes()):
        x = value("x", shape, 0.05, ZERO_POINTS[i % 4])
        y = ZERO_POINTS[i // 4 % 4]
        yield make_op(
            Mean, value("y", (), 0.05 * (0.3 + 0.2 * (i % 5)), y), x=x, axes=(1, 2), keepdims=i % 2 == 0
        )
        reduced = shape[1] * shape[2]
        yield make_op(
            ReduceSum, value("y", (), 0.05 * (1.3 + 0.7 * (i % 3)) * reduced**0.5, y), x=x, axes=(1, 2)
        )


def every_extreme() -> Iterator[Run]:
    """Maxima and minima of the same shapes, and of booleans; the answer stands in one place for each result."""
    rng = np.random.default_rng(5)
    for i, shape in enumerate(block_shapes()):
        outer, rows, columns, inner = shape
        sign = (1, -1)[i % 2]
        data = -rng.integers(0, 128, (outer, rows * columns, inner))
        places = rng.integers(0, rows * columns, (outer, 1, inner))
        np.put_along_axis(data, places, rng.integers(1, 128, places.shape), 1)
        x, y = value("x", shape, 0.05, 3), value("y", (), 0.05, 3)
        if i % 5 == 0:
            x, y, data = (
                replace(x, type=TensorType(shape, DType.BOOL)),
                replace(y, type=TensorType((), DType.BOOL)),
                data > 0,
            )
        op = make_op((ReduceMax, ReduceMin)[i % 2], y, x=x, axes=(1, 2), keepdims=i % 3 == 0)
        numbers = data ^ (sign < 0) if data.dtype == bool else sign * data
        yield Run(op, (numbers.reshape(shape).astype(x.dtype.numpy),))


def block_shapes() -> Iterator[tuple[int, int, int, int]]:
    """Images of which all rows and columns go."""
    rows_of_results = product((4, 5, 9), (1, 15, 49, 770), (1,))
    sizes = product((1, 3), (1, 2, 7, 255, 256, 257, 770), (1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 48, 49, 65))
    for outer, reduced, inner in chain(sizes, rows_of_results):
        rows = 7 if reduced % 7 == 0 else 1
        yield outer, rows, reduced // rows, inner
