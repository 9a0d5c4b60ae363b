# SPDX-License-Identifier: Apache-2.0
"""Corrects biases for the shift that rounding causes in a layer's channel means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from pillion.host_io.torch_threads import one_thread
from pillion.importers.torch.float_origin import copy_module
from pillion.importers.torch.fx_nodes import argument_of, aten, constant, constant_of
from pillion.importers.torch.loop_nodes import (
    LoopInterpreter,
    LoopNodes,
    compute_node,
    has_loops,
    in_execution_order,
)

LAYERS: dict[Any, int] = {aten.linear.default: -1, aten.conv1d.default: -2, aten.conv2d.default: -3}
"""Layers, and the channel axis of their results."""
FEWEST = 4
"""Minimum samples to tell a mean shift from chance."""
MOST = 32
"""Maximum samples for correction; more change little. Models with loops use FEWEST, because each step counts."""
TRIED = 16
"""Maximum samples that tell whether a correction helps."""
MOST_HARM = 1.5
"""Tolerated ratio of the errors with and without a correction by half of the samples, which all samples surpass."""
COMPARED = 8
"""Samples for comparing outputs without correction."""

Means = dict[str, Tensor]
"""Channel means of each layer and sample, [samples, channels]."""
Outputs = list[tuple[Tensor, ...]]
"""Outputs of a model for each sample."""


@one_thread()
def correct_biases(
    rounded: GraphModule, in_float: GraphModule, samples: Sequence[tuple[Tensor, ...]], *, change: bool = True
) -> tuple[Outputs, Outputs]:
    """Corrects the layers' biases so that channel means match the float model's. Returns the outputs of the float
    model and of the corrected one.

    Layers are corrected in execution order, on inputs from corrected layers. With fewer than FEWEST samples, or
    without `change`, biases stay."""
    most = MOST if change else COMPARED
    samples = samples[: FEWEST if has_loops(rounded.graph) else most]
    with torch.no_grad():
        reference = NodeByNodeRun(in_float, samples)
        expected = Means()
        for item in reference.order:
            expected |= reference.compute(item)
            reference.forget(item)
        helps = (
            change
            and len(samples) >= FEWEST
            and _spares_others(rounded, samples, expected, reference.outputs)
        )
        walk = NodeByNodeRun(rounded, samples)
        _correct_layer_biases(walk, expected if helps else {})
    rounded.recompile()
    return reference.outputs, walk.outputs


def _spares_others(
    rounded: GraphModule, samples: Sequence[tuple[Tensor, ...]], expected: Means, wanted: Outputs
) -> bool:
    """Whether a correction by one half of the samples does not move the outputs of the other half away from the float
    model."""
    samples, wanted = samples[:TRIED], wanted[:TRIED]
    half = len(samples) // 2
    errors = []
    for layers in ({}, {name: means[: len(samples)] for name, means in expected.items()}):
        copied = copy_module(rounded)
        if copied is None:
            return True
        walk = NodeByNodeRun(copied, samples)
        _correct_layer_biases(walk, layers, half)
        errors.append(_output_error(wanted[half:], walk.outputs[half:]))
    return errors[1] <= MOST_HARM * errors[0]


def _output_error(wanted: Outputs, found: Outputs) -> float:
    """Returns the noise of all outputs in relation to their signal, summed over the outputs."""
    total = 0.0
    for real, got in zip(zip(*wanted, strict=True), zip(*found, strict=True), strict=True):
        signal = sum(float(one.double().square().sum()) for one in real)
        noise = sum(float((a.double() - b.double()).square().sum()) for a, b in zip(real, got, strict=True))
        total += noise / signal if signal else 0.0
    return total


def _correct_layer_biases(walk: NodeByNodeRun, expected: Means, count: int | None = None) -> None:
    """Corrects the layers with expected means, by the first `count` samples."""
    for item in walk.order:
        means = walk.compute(item)
        for layer in [name for name in means if name in expected]:
            errors = (expected[layer] - means[layer])[:count]
            _add_to_bias(walk.module, walk.layers[layer], _shrunk_mean_error(errors))
            means = walk.compute(item)
        walk.forget(item)


def _shrunk_mean_error(errors: Tensor) -> Tensor:
    """Returns the mean error of each channel, shrunk by its expected sampling error (James–Stein)."""
    mean = errors.mean(0)
    by_chance = errors.var(0) / len(errors)
    return mean * (1 - by_chance / mean.square().clamp(min=1e-300)).clamp(min=0.0)


def _is_correctable_layer(node: Node) -> bool:
    """Whether a node is a layer without a computed bias."""
    if node.target not in LAYERS:
        return False
    bias = argument_of(node, 2)
    return bias is None or constant_of(bias) is not None


def _channel_means(layer: Node, value: Tensor) -> Tensor:
    return value.double().movedim(LAYERS[layer.target], 0).flatten(1).mean(1)


def _add_to_bias(module: GraphModule, layer: Node, shift: Tensor) -> None:
    """Adds to a layer's bias, in a new constant because layers may share biases."""
    bias = argument_of(layer, 2)
    old = constant_of(bias) if bias is not None else None
    moved = shift.float() if old is None else (old.double() + shift).to(old.dtype)
    new = constant(layer, moved, f"{layer.name}_corrected")
    layer.args = (*layer.args[:2], new, *layer.args[3:])
    if isinstance(bias, Node) and not bias.users:
        module.graph.erase_node(bias)


class NodeByNodeRun:
    """Runs a graph on all samples node by node: a layer can change before its readers run."""

    def __init__(self, module: GraphModule, samples: Sequence[tuple[Tensor, ...]]) -> None:
        self.module, self.samples = module, samples
        self.values: dict[Node, list[Any]] = {}
        self.inputs = {n: i for i, n in enumerate(module.graph.find_nodes(op="placeholder"))}
        self.order: list[Node | LoopNodes] = list(in_execution_order(module.graph))
        nodes = (n for item in self.order for n in (item.nodes if isinstance(item, LoopNodes) else [item]))
        self.layers = {node.name: node for node in nodes if _is_correctable_layer(node)}
        last: dict[Node, Node | LoopNodes] = {}
        for item in self.order:
            last.update(dict.fromkeys(_read_by(item), item))
        self.last_of: dict[int, list[Node]] = {}
        for read, reader in last.items():
            self.last_of.setdefault(id(reader), []).append(read)

    def compute(self, item: Node | LoopNodes) -> Means:
        """Computes a node or loop on each sample. Returns the means of its layers."""
        for node in _read_by(item):
            if node not in self.values:  # a bias that is new
                self.values[node] = [
                    self._compute_on_sample(node, number) for number in range(len(self.samples))
                ]
        if isinstance(item, LoopNodes):
            return self._loop(item)
        self.values[item] = [self._compute_on_sample(item, number) for number in range(len(self.samples))]
        if item.name not in self.layers:
            return {}
        return {item.name: torch.stack([_channel_means(item, value) for value in self.values[item]])}

    @property
    def outputs(self) -> Outputs:
        """Outputs of all samples, after the whole graph has run."""
        return [tuple(tree_leaves(output)) for output in self.values[self.module.graph.output_node()]]

    def forget(self, item: Node | LoopNodes) -> None:
        """Frees values whose last reader was `item`."""
        for read in self.last_of.get(id(item), ()):
            self.values.pop(read, None)

    def _loop(self, loop: LoopNodes) -> Means:
        means: dict[Node, list[Tensor]] = {}
        layers = {node for node in loop.body if node.name in self.layers}

        def record(node: Node, value: Any) -> None:
            if node in layers:
                means.setdefault(node, []).append(_channel_means(node, value))

        steps = LoopInterpreter(self.module, record)
        by_name: dict[str, list[Tensor]] = {}
        for node in loop.ends:
            self.values[node] = []
        for number in range(len(self.samples)):
            results = steps.steps(loop, {node: self.values[node][number] for node in loop.reads})
            for node, value in results.items():
                self.values[node].append(value)
            for node, of_steps in means.items():
                by_name.setdefault(node.name, []).append(torch.stack(of_steps).mean(0))
            means.clear()
        return {name: torch.stack(of_samples) for name, of_samples in by_name.items()}

    def _compute_on_sample(self, node: Node, number: int) -> Any:
        if node.op == "placeholder":
            return self.samples[number][self.inputs[node]]
        return compute_node(self.module, node, lambda n: self.values[n][number])


def _read_by(item: Node | LoopNodes) -> Sequence[Node]:
    return item.reads if isinstance(item, LoopNodes) else item.all_input_nodes
