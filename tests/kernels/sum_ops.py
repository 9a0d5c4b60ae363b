# SPDX-License-Identifier: Apache-2.0
"""Means and sums over the first, the middle, the last and all axes, over more elements than 16 bits hold."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, product
from typing import Any

from pillion.ops.example_values import make, value
from pillion.ops.reduce import Mean, ReduceSum

ZERO_POINTS = (-128, 0, 127, -3)


def every_block() -> Iterator[Any]:
    """With one and with two axes that go; without results, there is nothing to see."""
    rows_of_results = product((4, 5, 9), (1, 15, 49, 770), (1,))
    sizes = product((1, 3), (1, 2, 7, 255, 256, 257, 770), (1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 48, 49, 65))
    for i, (outer, reduced, inner) in enumerate(chain(sizes, rows_of_results)):
        rows = 7 if reduced % 7 == 0 else 1
        shape = (outer, rows, reduced // rows, inner)
        x = value("x", shape, 0.05, ZERO_POINTS[i % 4])
        y = ZERO_POINTS[i // 4 % 4]
        yield make(
            Mean, value("y", (), 0.05 * (0.3 + 0.2 * (i % 5)), y), x=x, axes=(1, 2), keepdims=i % 2 == 0
        )
        yield make(
            ReduceSum, value("y", (), 0.05 * (1.3 + 0.7 * (i % 3)) * reduced**0.5, y), x=x, axes=(1, 2)
        )
