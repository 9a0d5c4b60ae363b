# SPDX-License-Identifier: Apache-2.0
"""Hard-sigmoids for an NPU that has sums and products: every level, on many scales."""

from __future__ import annotations

import numpy as np
import pytest

import pillion
from pillion import zoo
from pillion.devices.neutron import N3_64
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Array, Value
from pillion.ir.verdict import all_ok
from pillion.ir.verify import verify
from pillion.ops import Function, Lut, Segment
from pillion.ops.samples import make, value
from pillion.passes import sum_hard_sigmoids

LEVELS: Array = np.arange(-128, 128).astype(np.int8).reshape(1, 16, 16)
OTHERS = [f for f in Function if f not in (Function.HARDSIGMOID, Function.TABLE)]


def function_of(x: Value, y: Value, function: Function = Function.HARDSIGMOID) -> Graph:
    op = make(Lut, y, x=x, table=None, function=function)
    return verify(Graph("g", (x,), (op,), (op.y,)))


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
        summed = verify(sum_hard_sigmoids(graph)).replace(arithmetic=Arithmetic.TFLITE)
        assert [op.kind for op in summed] == ["add", "mul"]
        assert all(all_ok(N3_64.judge(op)) for op in summed)
        wanted, found = (g.reference(LEVELS)[0].astype(int) for g in (graph, summed))
        assert abs(wanted - found).max() <= 1
        different += int((wanted != found).sum())
    assert different <= 1


@pytest.mark.parametrize("function", OTHERS, ids=lambda f: f.value)
def test_other_functions_stay(function: Function) -> None:
    graph = function_of(value("x", LEVELS.shape, 0.05, 3), value("y", LEVELS.shape, 0.05, 3), function)
    assert sum_hard_sigmoids(graph).ops == graph.ops


@pytest.mark.slow
def test_mobilenet_v3_becomes_one_segment() -> None:
    module, example = zoo.build("mobilenet_v3_small", 64)
    program = pillion.compile(module, example, target="imxrt700", calibrate=[example], name="mv3")
    assert sum(isinstance(op, Segment) for op in program.graph.ops) == 1
    assert {e.op.kind for e in program.ledger if e.segment is None} == {"quantize", "dequantize"}
    x = example[0].numpy()
    np.testing.assert_array_equal(program.run(x)[0], program.run(x, on="host")[0])
    cpu = pillion.compile(module, example, target="cortex-m33", calibrate=[example], name="mv3")
    assert len(cpu.tflite()) > 1000, "a .tflite file has no hard-sigmoid, but sums and products"
