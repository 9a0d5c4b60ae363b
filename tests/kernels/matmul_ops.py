# SPDX-License-Identifier: Apache-2.0
"""Products of matrices of every small shape, with results that use the whole range."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from pillion.ops.example_values import make_op, value
from pillion.ops.matmul import BatchMatmul

SIDES = (*range(1, 10), 15, 16, 17, 31, 33, 65)
DEPTHS = (*range(1, 34), 63, 64, 65, 128)
ZERO_POINTS = (-128, 0, 127, 5, -37)


def matmul(batch: int, rows: int, depth: int, columns: int, seed: int, relu: bool = False) -> BatchMatmul:
    """Which of the operands lie exchanged in memory, and the zero points, follow from the seed."""
    adj_x, adj_y = bool(seed % 2), bool(seed // 2 % 2)
    a_shape = (batch, depth, rows) if adj_x else (batch, rows, depth)
    b_shape = (batch, columns, depth) if adj_y else (batch, depth, columns)
    a = value("a", a_shape, 0.031, ZERO_POINTS[seed % 5])
    b = value("b", b_shape, 0.043, ZERO_POINTS[seed // 5 % 5])
    unit = a.scale * b.scale
    scale = unit * math.sqrt(depth) * 90 if seed % 3 else unit * depth * 128
    y = value("y", (), scale, ZERO_POINTS[seed // 3 % 5])
    low = y.zero_point if relu else -128
    made = make_op(
        BatchMatmul, y, a=a, b=b, adj_x=adj_x, adj_y=adj_y, low=low, high=100 if seed % 7 == 0 else 127
    )
    assert isinstance(made, BatchMatmul)
    return made


def every_size(depths: Iterable[int] = DEPTHS) -> Iterator[BatchMatmul]:
    for i, depth in enumerate(depths):
        for j in range(6):
            seed = 6 * i + j
            rows, columns = SIDES[(5 * i + 3 * j) % len(SIDES)], SIDES[(7 * i + 11 * j + 1) % len(SIDES)]
            yield matmul(1 + seed % 3, rows, depth, columns, seed, relu=seed % 4 == 0)
