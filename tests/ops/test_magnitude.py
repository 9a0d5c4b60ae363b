# SPDX-License-Identifier: Apache-2.0
"""Functions of the sum of two squares against real numbers, and the same as ops that other runtimes have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType, PerTensor, Value, constant_value
from pillion.ir.verify import verify_graph
from pillion.ops import Add, Lut, Magnitude, Mul
from pillion.ops.example_values import make_op, random_like, value
from pillion.ops.magnitude import tabulate_thresholds
from pillion.passes import legalize_for_runtime

FUNCTIONS: dict[str, tuple[Callable[[Any], Any], PerTensor]] = {
    "sqrt": (np.sqrt, PerTensor(0.1, -128)),
    "log": (lambda x: np.log(x + 1e-6), PerTensor(0.09, 25)),
    "decibels": (lambda x: 10 * np.log10(np.maximum(x, 1e-10)), PerTensor(0.6, 90)),
    "power": (lambda x: x, PerTensor(2.5, -128)),
    "reciprocal": (lambda x: 1 / (x + 0.25), PerTensor(1 / 64, -128)),
    "the same for all": (lambda x: 0 * x + 3, PerTensor(0.1, 0)),
}


def op_of(name: str, ratio: float = 1.0, zeros: tuple[int, int] = (0, 0), shape: Any = (4096,)) -> Magnitude:
    function, quant = FUNCTIONS[name]
    held, first, falls = tabulate_thresholds(function, quant)
    made = make_op(
        Magnitude,
        value("y", (), quant.scale, quant.zero_point),
        a=value("a", shape, 0.0625, zeros[0]),
        b=value("b", shape, 0.0625 * ratio, zeros[1]),
        thresholds=constant_value("thresholds", held),
        first=first,
        falls=falls,
    )
    assert isinstance(made, Magnitude)
    return made


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("zeros", [(-128, 127), (0, 0), (5, -100)])
def test_results_are_nearest_integers(name: str, zeros: tuple[int, int]) -> None:
    """Where both scales are one, the sum is exact, and only a sum on the edge between two results may go to either."""
    op, (function, quant) = op_of(name, zeros=zeros), FUNCTIONS[name]
    a, b = random_like(op.a), random_like(op.b)
    a[:3], b[:3] = zeros[0], zeros[1]  # exactly 0
    power = ((a.astype(float) - zeros[0]) ** 2 + (b.astype(float) - zeros[1]) ** 2) * 0.0625**2
    with np.errstate(divide="ignore"):
        wanted = np.clip(function(power) / quant.scale + quant.zero_point, -128, 127)
    assert np.abs(op.reference(Arithmetic.CMSIS_NN, a, b) - wanted).max() < 0.5001


@pytest.mark.parametrize("ratio", [0.9, 1.7, 0.01, 300.0])
def test_any_ratio_of_scales(ratio: float) -> None:
    op, (function, quant) = op_of("log", ratio), FUNCTIONS["log"]
    assert sum(factor * 255**2 for factor in op.factors) <= 2**31 - 1
    a, b = random_like(op.a), random_like(op.b)
    power = (a * op.a.scale) ** 2.0 + (b * op.b.scale) ** 2.0
    wanted = np.clip(function(power) / quant.scale + quant.zero_point, -128, 127)
    apart = np.abs(op.reference(Arithmetic.CMSIS_NN, a, b) - wanted)
    assert np.quantile(apart, 0.98) < 1


def test_a_function_that_falls_counts_down() -> None:
    held, first, falls = tabulate_thresholds(lambda x: 1 / (x + 0.25), PerTensor(1 / 64, -128))
    assert (first, falls) == (127, True)
    assert (np.diff(held) >= 0).all()


def test_an_infinite_value_at_zero_maps_to_the_end_of_the_range() -> None:
    held, first, falls = tabulate_thresholds(np.log, PerTensor(0.1, 0))
    assert (first, falls) == (-128, False)
    assert held[0] == pytest.approx(np.exp(-12.75), rel=1e-6)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"b": value("b", (5,))}, "shapes are equal"),
        ({"first": 200}, "a number of int8"),
        ({"thresholds": constant_value("t", np.zeros(7, np.float32))}, "255 constant thresholds"),
        ({"thresholds": constant_value("t", np.zeros(255, np.int32))}, "is float32"),
        ({"thresholds": constant_value("t", np.arange(255, 0, -1).astype(np.float32))}, "ascend"),
    ],
)
def test_invalid_attributes_are_refused(change: dict[str, Any], rule: str) -> None:
    with pytest.raises(PillionError, match=rule):
        replace(op_of("sqrt"), **change).check()


@pytest.mark.parametrize(("name", "known"), [("sqrt", ["sqrt"]), ("power", []), ("reciprocal", ["table"])])
def test_ops_that_others_have_mean_nearly_the_same(name: str, known: list[str]) -> None:
    op = op_of(name, 0.8, (3, -20), (3, 7, 11))
    y: Value = op.y
    graph = verify_graph(Graph("g", (op.a, op.b), (op,), (y,)), "before")
    said: list[str] = []
    composed = verify_graph(legalize_for_runtime(graph, said.append), "after")
    assert [type(one) for one in composed.ops] == (
        [Mul, Mul, Add] if name == "power" else [Mul, Mul, Add, Lut]
    )
    assert [one.function.value for one in composed.ops if isinstance(one, Lut)] == known
    assert len(said) == 1
    assert "squares that are added up have 8 bits there" in said[0]
    assert {v.dtype for v in composed.values.values()} == {DType.INT8}
    assert legalize_for_runtime(composed) is composed
    inputs = [random_like(v) for v in (op.a, op.b)]
    (one,), (other,) = graph.reference(*inputs), composed.reference(*inputs)
    assert np.quantile(np.abs(one.astype(int) - other), 0.9) <= 4
