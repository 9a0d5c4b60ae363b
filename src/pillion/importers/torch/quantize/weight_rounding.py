# SPDX-License-Identifier: Apache-2.0
"""Rounds the weights of layers so that errors of correlated inputs cancel, which brings results nearer to float than
the nearest weights do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.nn.functional import unfold

from pillion.compensated_rounding import MOST_INPUTS, Reals, compensated, nearest
from pillion.host_io.progress import stage
from pillion.host_io.torch_threads import one_thread
from pillion.importers.torch.fx_nodes import (
    argument_of,
    aten,
    calls,
    constant,
    constant_of,
    constant_tensor,
    per_axis,
    single_user,
)
from pillion.importers.torch.loop_nodes import LoopInterpreter
from pillion.importers.torch.observers import observer_of
from pillion.importers.torch.quantize.bias_correction import FEWEST, LAYERS

DAMPINGS = 0.1, 1.0
"""Dampings to choose from; one half of the samples judges each, fitted to the other half."""
MOST_WINDOWS = 1024
"""Windows of a sample that a layer looks at."""
ROUNDED = "pillion_rounded_weights"
"""Metadata key of weights that were rounded."""


@one_thread()
def round_weights(prepared: GraphModule, samples: Sequence[tuple[Tensor, ...]], *, centred: bool) -> None:
    """Replaces weights by compensated levels of their observers. Each half of the samples judges the weights fitted
    to the other half; a layer that loses keeps its weights. `centred` ignores the mean of all windows, which
    corrected biases compensate. With fewer than FEWEST samples nothing changes."""
    layers = [layer for layer in calls(prepared.graph, LAYERS) if _has_own_weights(prepared, layer)]
    if len(samples) < FEWEST or not layers:
        return
    windows = _Windows(prepared, layers)
    with stage("rounding weights", len(samples) + len(layers)) as advance:
        for number, sample in enumerate(samples):
            windows.run_sample(sample, number % 2)
            advance(number + 1, len(samples) + len(layers))
        for number, layer in enumerate(layers, start=len(samples) + 1):
            halves = windows.products(layer, centred)
            if halves is not None:
                _round(prepared, layer, halves)
            advance(number, len(samples) + len(layers))
    prepared.recompile()


def _has_own_weights(prepared: GraphModule, layer: Node) -> bool:
    """Whether a layer alone reads its weights, which are constants in symmetric steps of 8 bits."""
    observed: Any = layer.args[1]
    observer = observer_of(prepared, observed)
    if getattr(observer, "dtype", None) is not torch.int8 or single_user(observed) is not layer:
        return False
    weights = observed.args[0]
    return (
        constant_of(weights) is not None
        and single_user(weights) is observed
        and not bool(observer.calculate_qparams()[1].any())
    )


class _Windows(LoopInterpreter):
    """Runs a prepared graph in float, and accumulates statistics of the windows that layers read: products, sums and
    counts, for each half of the samples."""

    def __init__(self, prepared: GraphModule, layers: Sequence[Node]) -> None:
        super().__init__(prepared)
        self.layers, self.half = set(layers), 0
        self.found: dict[tuple[Node, int], tuple[Reals, Reals, int]] = {}

    def run_sample(self, sample: Sequence[Tensor], half: int) -> None:
        """Runs one sample of a half."""
        self.half = half
        with torch.no_grad():
            self.run(*sample)

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Passes tensors by observers."""
        return args[0]

    def run_node(self, n: Node) -> Any:
        """Computes one node, and looks at the windows of layers."""
        if n in self.layers:
            x, weights = (self.env[operand] for operand in n.all_input_nodes[:2])
            windows = layer_windows(n, x, weights).double().numpy()
            if windows.shape[1] <= MOST_INPUTS:
                products, sums, count = self.found.get((n, self.half), (0.0, 0.0, 0))
                added = windows @ windows.swapaxes(1, 2), windows.sum(axis=2), windows.shape[2]
                self.found[n, self.half] = products + added[0], sums + added[1], count + added[2]
        return super().run_node(n)

    def products(self, layer: Node, centred: bool) -> list[Reals] | None:
        """Returns the products of inputs [groups, inputs, inputs] of each half of the samples, or None if there are
        too many inputs."""
        if (layer, 0) not in self.found:
            return None
        halves = []
        for half in range(2):
            products, sums, count = self.found[layer, half]
            mean = sums[:, :, None] * sums[:, None, :] / count
            halves.append(products - mean if centred else products)
        return halves


def layer_windows(layer: Node, x: Tensor, weights: Tensor) -> Tensor:
    """Returns some of the windows that a layer reads of its operand: [groups, inputs, windows]."""
    if layer.target is aten.linear.default:
        windows = x.reshape(-1, x.shape[-1]).T[None]
    else:
        kernel = weights.shape[2:]
        stride, padding, dilation, groups = (argument_of(layer, i) for i in (3, 4, 5, 6))
        flat = 2 - len(kernel)
        sizes = [
            (*[neutral] * flat, *per_axis(given, len(kernel)))
            for neutral, given in ((1, kernel), (1, dilation), (0, padding), (1, stride))
        ]
        columns = unfold(x.reshape(*x.shape[:2], *[1] * flat, *x.shape[2:]), *sizes)
        windows = columns.movedim(0, 1).reshape(groups, columns.shape[1] // groups, -1)
    chosen = np.random.default_rng(0).permutation(windows.shape[2])[:MOST_WINDOWS]
    return windows[:, :, torch.from_numpy(chosen)]


@dataclass(frozen=True)
class _Weights:
    """The weights of a layer: [groups, outputs, inputs], and the steps of each output."""

    real: Reals
    scales: Reals
    levels: tuple[int, int]

    def rounded(self, products: Reals, damping: float) -> Reals:
        """Returns the weights compensated for inputs with these products."""
        return compensated(self.real, self.scales, products, self.levels, damping) * self.scales[..., None]

    def error(self, rounded: Reals, products: Reals) -> float:
        """Returns the squared error of the results for inputs with these products."""
        errors = rounded - self.real
        return float(((errors @ products) * errors).sum())

    def best(self, halves: Sequence[Reals]) -> Reals | None:
        """Returns the weights compensated for all samples, or None if compensation for one half loses on the other
        half."""
        plain = nearest(self.real, self.scales, self.levels) * self.scales[..., None]
        lost: dict[float, float] = {
            damping: sum(
                self.error(self.rounded(one, damping), other) for one, other in (halves, halves[::-1])
            )
            for damping in DAMPINGS
        }
        damping = min(DAMPINGS, key=lost.__getitem__)
        if lost[damping] >= sum(self.error(plain, products) for products in halves):
            return None
        return self.rounded(halves[0] + halves[1], damping)


def _round(prepared: GraphModule, layer: Node, halves: Sequence[Reals]) -> None:
    """Replaces a layer's weights by compensated ones, if these are better."""
    observed: Any = layer.args[1]
    observer = observer_of(prepared, observed)
    weights = constant_tensor(observed.args[0])
    groups, inputs = halves[0].shape[:2]
    real = weights.double().numpy().reshape(groups, -1, inputs)
    steps = observer.calculate_qparams()[0].double().numpy()
    scales = np.broadcast_to(steps, len(weights)).reshape(groups, -1)
    rounded = _Weights(real, scales, (observer.quant_min, observer.quant_max)).best(halves)
    if rounded is not None:
        tensor = torch.from_numpy(rounded.reshape(weights.shape)).to(weights.dtype)
        constants = constant(observed, tensor, f"{layer.name}_rounded_weights")
        constants.meta[ROUNDED] = True
        observed.args = (constants,)


def _is_fitted(layer: Node) -> bool:
    """Whether a layer's weights were compensated."""
    observed: Any = layer.args[1]
    return observed.op == "call_module" and ROUNDED in observed.args[0].meta


def fitted_layers(prepared: GraphModule) -> int:
    """Counts the layers with compensated weights."""
    return sum(map(_is_fitted, calls(prepared.graph, LAYERS)))


def restore_weights(prepared: GraphModule, in_float: GraphModule) -> None:
    """Restores the float weights of compensated layers."""
    exact = {layer.name: layer.args[1] for layer in calls(in_float.graph, LAYERS)}
    for layer in calls(prepared.graph, LAYERS):
        if _is_fitted(layer):
            observed: Any = layer.args[1]
            weights = constant_tensor(exact[layer.name])
            observed.args = (constant(observed, weights, f"{layer.name}_exact_weights"),)
    prepared.recompile()
