# SPDX-License-Identifier: Apache-2.0
"""Quantization takes work in proportion to the calls of a net, and to the reads of their results."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node

from call_counts import assert_grows
from nightly import part_of
from pillion.importers.torch.export import export
from pillion.importers.torch.fx_nodes import constant_nodes, is_constant, is_trainable
from pillion.importers.torch.quantize.ptq import ptq
from pillion.importers.torch.quantize.quantized_program import QUANTIZE
from pillion.importers.torch.rewrite.batch_norm import fold_batch_norms
from pillion.importers.torch.to_graph import import_program

normalizing, quantizing, converting = (
    importlib.import_module(f"pillion.importers.torch.{name}")
    for name in ("rewrite.pipeline", "quantize.ptq", "quantize.convert")
)
"""The modules: functions of the package have the same names."""
DEEP = 3000
"""More than Python's stack holds."""


class Layer(nn.Module):
    def __init__(self, channels: int, made: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, made, 1), nn.BatchNorm2d(made)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.norm(self.conv(x)))


class Dense(nn.Module):
    """Each layer reads all before it; the newest comes first, or last."""

    def __init__(self, count: int, *, newest_first: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(2 + 2 * i, 2) for i in range(count))
        self.newest_first = newest_first

    def forward(self, x: Tensor) -> Tensor:
        known = [x]
        for layer in self.layers:
            made = layer(torch.cat(known, 1))
            known = [made, *known] if self.newest_first else [*known, made]
        return torch.cat(known, 1)


class Residual(nn.Module):
    """Sums, of which only those before a softmax may be masks."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(2, 2) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + layer(x)
        return torch.softmax(x.flatten(1), 1)


class Masked(nn.Module):
    """Scores with a mask of their own, many times."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.masks = nn.ParameterList(torch.tensor([0.0, -1e9 - i]) for i in range(count))

    def forward(self, x: Tensor) -> Tensor:
        for mask in self.masks:
            x = torch.softmax(x + mask, -1)
        return x


NETS: dict[str, tuple[Callable[[int], nn.Module], int, float]] = {
    "newest first": (lambda n: Dense(n, newest_first=True), 10, 4.0),
    "newest last": (lambda n: Dense(n, newest_first=False), 10, 4.0),
    "residual": (Residual, 15, 2.0),
    "masked": (Masked, 15, 2.0),
}
"""A net of so many layers, and how much more reads there are in one of twice as many."""


@pytest.mark.turns(5)
@pytest.mark.parametrize("net", part_of(NETS, 2))
def test_from_torch_to_a_graph(net: str) -> None:
    make, size, factor = NETS[net]

    def action(size: int) -> Callable[[], object]:
        torch.manual_seed(0)
        model, example = make(size).eval(), (torch.randn(1, 2, 2, 2),)
        exported = export(model, example)
        return lambda: import_program(ptq(exported, example, [example]).graph_module, "g")

    assert_grows(action, size, factor)


def test_folding_batch_norms_takes_linear_work() -> None:
    def action(size: int) -> Callable[[], object]:
        torch.manual_seed(0)
        module = export(Residual(size).eval(), (torch.randn(1, 2, 2, 2),)).module(check_guards=False)
        return lambda: fold_batch_norms(module)

    assert_grows(action, 15)


def test_each_reader_has_a_dequantization_of_its_own() -> None:
    example = (torch.randn(1, 2, 2, 2),)
    program = ptq(Dense(4, newest_first=False).eval(), example, [example])
    made = [n for n in program.nodes if n.target in QUANTIZE]
    assert made
    assert all(len(n.users) == 1 for n in made)


def deep_graph(start: Callable[[Graph], Node], count: int = DEEP) -> GraphModule:
    """x + x, again and again: a way for every subset of the steps."""
    graph = Graph()
    node = start(graph)
    for _ in range(count):
        node = graph.call_function(torch.ops.aten.add.Tensor, (node, node))
    graph.output(node)
    root = nn.Module()
    root.weight = nn.Parameter(torch.zeros(1))
    return GraphModule(root, graph)


@pytest.mark.parametrize("is_input", [False, True])
def test_deep_graphs_are_walked_once(is_input: bool) -> None:
    module = deep_graph(lambda g: g.placeholder("x") if is_input else g.get_attr("weight"))
    (output,) = module.graph.find_nodes(op="output")
    last = output.args[0]
    assert is_constant(last) is not is_input
    assert is_trainable(last) is not is_input
    assert len(constant_nodes(module.graph)) == (0 if is_input else DEEP + 1)


def test_tiny_computations_take_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many threads wait for each other longer than they compute; observing, which computes much, has all."""
    seen: dict[str, int] = {}

    def watched(module: object, name: str, step: str) -> None:
        inner = getattr(module, name)

        def outer(*arguments: object, **options: object) -> object:
            seen[step] = torch.get_num_threads()
            return inner(*arguments, **options)

        monkeypatch.setattr(module, name, outer)

    watched(normalizing, "fold_batch_norms", "normalize")
    watched(quantizing, "run_through_observers", "observe")
    watched(converting, "complete_values", "convert")
    before, example = torch.get_num_threads(), (torch.randn(1, 2, 2, 2),)
    torch.set_num_threads(3)
    try:
        ptq(Residual(2).eval(), example, [example])
        assert seen == {"normalize": 1, "observe": 3, "convert": 1}
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
