# SPDX-License-Identifier: Apache-2.0
"""Hard-sigmoids for an NPU that has sums and products: every level, on many scales."""

from __future__ import annotations

import numpy as np
import pytest

from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Array, Value
from pillion.ir.verify import verify_graph
from pillion.ops import Function, Lut
from pillion.ops.example_values import make_op, value
from pillion.passes import sum_hard_sigmoids

LEVELS: Array = np.arange(-128, 128).astype(np.int8).reshape(1, 16, 16)
OTHERS = [f for f in Function if f not in (Function.HARDSIGMOID, Function.TABLE)]


def function_of(x: Value, y: Value, function: Function = Function.HARDSIGMOID) -> Graph:
    op = make_op(Lut, y, x=x, table=None, function=function)
    return verify_graph(Graph("g", (x,), (op,), (op.y,)))


def test_no_level_is_off_by_more_than_one_step_and_hardly_any_by_one() -> None:
    """Measured: one level of 51,200."""
    rng = np.random.default_rng(0)
    different = 0
    for number in range(200):
        x = value(
            "x", LEVELS.shape, float(np.float32(10 ** rng.uniform(-3, 0))), int(rng.integers(-128, 128))
        )
        scale = 1 / 256 if number % 2 else float(np.float32(rng.uniform(0.5, 1.01) / 255))
        graph = function_of(x, value("y", LEVELS.shape, scale, int(rng.choice([-128, -127, -60]))))
        summed = verify_graph(sum_hard_sigmoids(graph)).replace(arithmetic=Arithmetic.TFLITE)
        assert [op.kind for op in summed] == ["add", "mul"]
        wanted, found = (g.reference(LEVELS)[0].astype(int) for g in (graph, summed))
        assert abs(wanted - found).max() <= 1
        different += int((wanted != found).sum())
    assert different <= 1


@pytest.mark.parametrize("function", OTHERS, ids=lambda f: f.value)
def test_other_functions_stay(function: Function) -> None:
    graph = function_of(value("x", LEVELS.shape, 0.05, 3), value("y", LEVELS.shape, 0.05, 3), function)
    assert sum_hard_sigmoids(graph).ops == graph.ops
