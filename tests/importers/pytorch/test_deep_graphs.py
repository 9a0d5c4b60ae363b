# SPDX-License-Identifier: Apache-2.0
"""Nets deeper than calls of Python can be nested."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node

import pillion
from nightly import part_of
from pillion.errors import PillionError
from pillion.importers.torch.fx_nodes import is_constant, is_trainable

pytestmark = pytest.mark.torch

DEEP = 5 * sys.getrecursionlimit()


def grown(start: str, step: Callable[[Graph, Node], Node], steps: int) -> Node:
    """The last node of a graph that begins with an input (`x`) or a parameter (`p`)."""
    root = nn.Module()
    root.p = nn.Parameter(torch.ones(2))
    graph = Graph(root)
    node = graph.placeholder("x") if start == "x" else graph.get_attr("p")
    for _ in range(steps):
        node = step(graph, node)
    graph.output(node)
    graph.owning_module = GraphModule(root, graph)
    return node


STEPS: dict[str, tuple[Callable[[Graph, Node], Node], int]] = {
    "a chain": (lambda g, n: g.call_function(torch.neg, (n,)), DEEP),
    "a ladder, of 2^200 ways": (
        lambda g, n: g.call_function(torch.add, (n, g.call_function(torch.neg, (n,)))),
        200,
    ),
}


@pytest.mark.parametrize("start", ["x", "p"])
@pytest.mark.parametrize("name", STEPS)
def test_dependencies_are_found_at_any_depth(name: str, start: str) -> None:
    node = grown(start, *STEPS[name])
    assert is_constant(node) == is_trainable(node) == (start == "p")


class Chain(nn.Module):
    """Cheap layers one behind another, computed weights, and a tensor that is changed in place again and again."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Tanh() if i % 2 else nn.ReLU() for i in range(layers)))
        self.weight = nn.Parameter(torch.eye(4))
        self.steps = layers

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight
        for _ in range(self.steps):
            weight = (weight * 1.001).permute(1, 0)
            x = x.unsqueeze(0).squeeze(0)
        x = self.layers(x) @ weight
        for _ in range(self.steps // 4):
            x.add_(0.001)
        return x


@pytest.mark.slow
@pytest.mark.parametrize("target", part_of(["cortex-m33", "imxrt700"], 2))
@pytest.mark.nightly
def test_a_deep_net_compiles(target: str) -> None:
    """210 layers: the quantizer ended in a RecursionError from 200 on."""
    x = torch.linspace(0, 1, 8).reshape(2, 4)
    program = pillion.compile(Chain(210), (x,), target=target)
    assert len(program.graph.ops) > 2 or target == "imxrt700"
    assert np.array_equal(program.run(x)[0], program.run(x, on="host")[0])


def test_modules_in_modules() -> None:
    """As deep as torch can export; deeper ones are refused as what torch cannot export."""
    x, module = torch.linspace(0, 1, 8).reshape(2, 4), nn.Sequential(nn.Tanh())
    for _ in range(20):
        module = nn.Sequential(module)
    assert len(pillion.compile(module, (x,), target="cortex-m33").graph.ops) == 3
    for _ in range(sys.getrecursionlimit() // 5):
        module = nn.Sequential(module)
    with pytest.raises(PillionError, match="torch cannot export") as refused:
        pillion.compile(module, (x,), target="cortex-m33")
    assert "recursion" in refused.value.here
