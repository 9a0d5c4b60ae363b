# SPDX-License-Identifier: Apache-2.0
"""Grouped convolutions for an NPU that has none: any number of groups, the same bytes under both arithmetics."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import PerChannel, PerTensor, Value, constant_value
from pillion.ir.verify import verify_graph
from pillion.ops import Conv2d, Linear
from pillion.ops.example_values import make_op, random_like, value
from pillion.passes import split_groups


def grouped(
    groups: int, inputs: int, outputs: int, *, bias: bool = True, per_channel: bool = True, **more: object
) -> Op:
    """A convolution on a non-square image of a batch of two, with input and output channels of each group."""
    rng = np.random.default_rng([groups, inputs, outputs])
    data = rng.integers(-127, 128, (groups * outputs, 3, 2, inputs)).astype(np.int8)
    scales = rng.uniform(0.002, 0.02, groups * outputs)
    weights = constant_value("w", data, PerChannel(tuple(scales), 0) if per_channel else PerTensor(0.01))
    levels = rng.integers(-999, 999, groups * outputs) if bias else np.zeros(groups * outputs)
    held = constant_value("b", levels.astype(np.int32), PerChannel(tuple(scales * 0.05), 0))
    x = value("x", (2, 7, 5, groups * inputs), 0.05, -128)
    return make_op(
        Conv2d,
        value("y", (), 0.3, 5),
        x=x,
        weights=weights,
        bias=held,
        groups=groups,
        source="net.py:3",
        **more,
    )


def graph_of(op: Op) -> Graph:
    return verify_graph(Graph("g", op.activations, (op,), op.results))


@pytest.mark.parametrize("arithmetic", Arithmetic)
@pytest.mark.parametrize("groups", [2, 3, 4, 7, 10, 11, 16])
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (1, 3), (3, 1), (5, 2)])
def test_the_bytes_stay(arithmetic: Arithmetic, groups: int, inputs: int, outputs: int) -> None:
    graph = graph_of(grouped(groups, inputs, outputs)).replace(arithmetic=arithmetic)
    split = verify_graph(split_groups(graph))
    x = random_like(graph.inputs[0], groups)
    assert split.reference(x)[0].tobytes() == graph.reference(x)[0].tobytes()
    assert [op.kind for op in split] == ["slice"] * groups + ["conv2d"] * groups + ["concat"]


@pytest.mark.parametrize(
    "options",
    [
        {"bias": False},
        {"per_channel": False},
        {"padding": (1, 2, 0, 1)},
        {"stride": (2, 3)},
        {"dilation": (3, 2)},
        {"low": 5, "high": 90},
    ],
    ids=lambda options: next(iter(options)),
)
def test_strides_padding_and_bounds_survive_the_split(options: dict[str, object]) -> None:
    graph = graph_of(grouped(3, 4, 5, **options))  # type: ignore[arg-type]  # the options of a case
    x = random_like(graph.inputs[0])
    assert verify_graph(split_groups(graph)).reference(x)[0].tobytes() == graph.reference(x)[0].tobytes()


@pytest.mark.parametrize("bias", [True, False])
def test_every_group_has_constants_of_its_own(bias: bool) -> None:
    """A bias of zeros has the scale of its own weights."""
    convs = [op for op in split_groups(graph_of(grouped(4, 2, 3, bias=bias))) if isinstance(op, Conv2d)]
    held = [v for op in convs for v in (op.weights, op.bias)]
    assert len({v.name for v in held}) == len(held)
    for op in convs:
        assert isinstance(op.weights.type.quant, PerChannel)
        assert isinstance(op.bias.type.quant, PerChannel)
        assert len(op.bias.type.quant.scales) == len(op.weights.type.quant.scales) == 3
        assert op.source == "net.py:3"


def test_two_convolutions_with_the_same_weights() -> None:
    first = grouped(2, 4, 4)
    assert isinstance(first, Conv2d)
    y = Value("z", first.y.type)
    second = dataclasses.replace(first, y=y)
    graph = verify_graph(Graph("g", first.activations, (first, second), (first.y, y)))
    split = verify_graph(split_groups(graph))
    x = random_like(graph.inputs[0])
    assert [a.tobytes() for a in split.reference(x)] == [a.tobytes() for a in graph.reference(x)]


@pytest.mark.parametrize("cls", [Conv2d, Linear])
def test_ops_without_groups_stay(cls: type[Op]) -> None:
    for op in cls.examples():
        graph = graph_of(op)
        if getattr(op, "groups", 1) == 1:
            assert split_groups(graph).ops == graph.ops


def test_computed_weights_stay() -> None:
    op = grouped(2, 3, 3)
    assert isinstance(op, Conv2d)
    computed = op.substitute({op.weights: Value("w", op.weights.type)})
    graph = graph_of(computed)
    assert split_groups(graph).ops == graph.ops
