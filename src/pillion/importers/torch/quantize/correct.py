# SPDX-License-Identifier: Apache-2.0
"""Biases that take back what rounding has shifted: rounded weights change a channel's mean, and a mean is what a bias can give back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from pillion.importers.torch.nodes import argument, constant, constant_of
from pillion.importers.torch.quantize.equalize import LAYERS
from pillion.outside.threads import one_thread

Values = dict[Node, list[Any]]


@one_thread()
def correct_biases(rounded: GraphModule, in_float: GraphModule, samples: Sequence[tuple[Tensor, ...]]) -> int:
    """Gives each layer a bias with which its channels have the means of the float model on some samples, one layer after the other:
    each with its inputs as the layers before, corrected already, leave them. Says how many there are."""
    with torch.no_grad():
        wanted = _means(in_float, samples)
        walk = _Walk(rounded, samples)
        corrected = 0
        for node in list(rounded.graph.nodes):
            walk.compute(node)
            if node.target in LAYERS and node.name in wanted and _has_bias(node):
                shift = wanted[node.name] - _mean(walk.values[node], LAYERS[node.target])
                _shift(rounded, node, shift)
                walk.compute_again(node)
                corrected += 1
            walk.forget(node)
    rounded.graph.eliminate_dead_code()
    rounded.recompile()
    return corrected


def _has_bias(layer: Node) -> bool:
    bias = argument(layer, 2)
    return isinstance(bias, Node) and constant_of(bias) is not None


def _means(module: GraphModule, samples: Sequence[tuple[Tensor, ...]]) -> dict[str, Tensor]:
    """The mean of each channel of each layer."""
    walk, found = _Walk(module, samples), {}
    for node in module.graph.nodes:
        walk.compute(node)
        if node.target in LAYERS:
            found[node.name] = _mean(walk.values[node], LAYERS[node.target])
        walk.forget(node)
    return found


def _mean(values: Sequence[Tensor], axis: int) -> Tensor:
    return torch.stack([v.double().movedim(axis, 0).flatten(1).mean(1) for v in values]).mean(0)


def _shift(module: GraphModule, layer: Node, shift: Tensor) -> None:
    """A bias of its own, for layers may share one."""
    held = constant_of(argument(layer, 2))
    assert held is not None
    new = constant(module, layer, (held.double() + shift).to(held.dtype), f"{layer.name}_corrected")
    layer.args = (*layer.args[:2], new, *layer.args[3:])


class _Walk:
    """Goes through a graph with all samples at once, node by node, so that a node can be changed before the next one reads it."""

    def __init__(self, module: GraphModule, samples: Sequence[tuple[Tensor, ...]]) -> None:
        self.module, self.samples = module, samples
        self.values: Values = {}
        self.inputs = {n: i for i, n in enumerate(module.graph.find_nodes(op="placeholder"))}
        last: dict[Node, Node] = {}
        for node in module.graph.nodes:
            last.update(dict.fromkeys(node.all_input_nodes, node))
        self.last_of: dict[Node, list[Node]] = {}
        for read, reader in last.items():
            self.last_of.setdefault(reader, []).append(read)

    def compute(self, node: Node) -> None:
        """Computes a node on each sample."""
        self.values[node] = [self._one(node, number) for number in range(len(self.samples))]

    def compute_again(self, layer: Node) -> None:
        """Computes a layer whose bias is another now."""
        bias: Any = argument(layer, 2)
        self.compute(bias)
        self.compute(layer)

    def forget(self, node: Node) -> None:
        """Lets go of what nobody reads any more."""
        for read in self.last_of.get(node, ()):
            self.values.pop(read, None)

    def _one(self, node: Node, number: int) -> Any:
        if node.op == "placeholder":
            return self.samples[number][self.inputs[node]]
        if node.op == "get_attr":
            owner, _, name = str(node.target).rpartition(".")
            return getattr(self.module.get_submodule(owner), name)
        args, named = map_arg((node.args, dict(node.kwargs)), lambda n: self.values[n][number])
        if node.op == "call_module":
            return self.module.get_submodule(str(node.target))(*args, **named)
        return node.target(*args, **named) if node.op == "call_function" else None  # type: ignore[operator]  # a function
