# SPDX-License-Identifier: Apache-2.0
"""Chooses the tensors that need 16 bits for a wished quality. All damage is measured on samples, by rounding tensors
in the float model as the program will round them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import deepcopy
from itertools import pairwise
from math import inf, log10, prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves
from torchao.quantization.pt2e import MinMaxObserver, ObserverBase, PerChannelMinMaxObserver

from pillion.errors import PillionError
from pillion.host_io.progress import stage
from pillion.importers.torch.export import quiet_torch
from pillion.importers.torch.fx_nodes import aten, constant_of, fake_result, module_of
from pillion.importers.torch.loop_nodes import run_with_loops
from pillion.importers.torch.observers import observer_of
from pillion.importers.torch.quantize.bias_correction import correct_biases
from pillion.importers.torch.quantize.convert import convert
from pillion.importers.torch.quantize.precision import (
    Computation,
    Widening,
    computations_of,
    names_of,
    widenable_observers,
)
from pillion.importers.torch.quantize.self_check import signal_to_noise_db
from pillion.importers.torch.rows.quantization import RULES
from pillion.ir.precision_choice import ChosenTensor, PrecisionChoice

SAMPLES = 16
"""Samples that judge a choice."""
RANKING = 8
"""Samples that rank tensors."""
TRIED = 16
"""Chosen tensors that are left out on trial."""
CONVERSION = 25.0
"""Multiplications that cost as much more in 16 bits as one element costs between widths, on a Cortex-M55."""
Samples = Sequence[tuple[Tensor, ...]]


class _Rounding(nn.Module):
    """Rounds a tensor to the levels of an observer's range."""

    def __init__(self, observer: Any) -> None:
        super().__init__()
        scale, zero_point = observer.calculate_qparams()
        axis = getattr(observer, "ch_axis", 0)
        self.scale, self.zero_point = scale, zero_point
        self.axis = axis if scale.numel() > 1 else None
        self.bounds = observer.quant_min, observer.quant_max

    def forward(self, x: Tensor) -> Tensor:
        """Returns the rounded tensor."""
        if not x.is_floating_point():
            return x
        if self.axis is None:
            return torch.fake_quantize_per_tensor_affine(
                x, self.scale.reshape(()), self.zero_point.reshape(()).to(torch.int32), *self.bounds
            )
        zero_point = self.zero_point.to(torch.int32)
        return torch.fake_quantize_per_channel_affine(x, self.scale, zero_point, self.axis, *self.bounds)


class PrecisionSearch:
    """Ranks tensors by what 8 bits cost in quality, simulated, and chooses as many as a measured wish needs."""

    def __init__(
        self, prepared: GraphModule, in_float: GraphModule, seen: Samples, judging: Samples, corrects: bool
    ) -> None:
        self.prepared, self.in_float, self.corrects = prepared, in_float, corrects
        self.outputs = len(prepared.graph.output_node().all_input_nodes)
        self.computations = computations_of(prepared)
        self.candidates = list(widenable_observers(prepared, self.computations))
        self.weight_ranges = {
            observer: observer.max_val.clone()
            for observer in prepared.modules()
            if isinstance(observer, (PerChannelMinMaxObserver, MinMaxObserver))
        }
        self.seen, self.judging, self.ranking = seen[:SAMPLES], judging[:SAMPLES], judging[:RANKING]
        with torch.no_grad():
            self.wanted = [_leaves(run_with_loops(in_float, *sample)) for sample in self.judging]

    def choose(self, wish: float) -> tuple[PrecisionChoice, list[Any]]:
        """Returns the cheapest tensors found that reach a quality in dB, and their observers."""
        everything = frozenset(self.candidates)
        before, everywhere = self.measured(()), self.measured(everything)
        if before >= wish:
            return PrecisionChoice(wish, before, before, everywhere, (), len(everything)), []
        if everywhere < wish:
            raise self._unreachable(wish, before, everywhere)
        chosen, after = self._without_useless(*self._shortest_prefix(self._ranked(everything), wish), wish)
        if self._price(chosen) >= self._price(self.candidates):
            chosen, after = self.candidates, everywhere
        damages = [self._damage(chosen[:count]) for count in range(len(chosen) + 1)]
        gains = [10 * log10(old / new) if new else inf for old, new in pairwise(damages)]
        tensors = tuple(ChosenTensor(self.name(o), gain) for o, gain in zip(chosen, gains, strict=True))
        return PrecisionChoice(wish, before, after, everywhere, tensors, len(everything)), chosen

    def _ranked(self, everything: frozenset[Any]) -> list[Any]:
        """Returns the tensors by the noise that they add in 8 bits, over what 16 bits cost."""
        floor = self._damage(everything)
        gains: dict[Any, float] = {}
        with stage("choosing 16-bit tensors", len(self.candidates)) as advance:
            for number, observer in enumerate(self.candidates):
                gains[observer] = (self._damage(everything - {observer}) - floor) / self.cost(observer)
                advance(number + 1, len(self.candidates))
        return sorted(self.candidates, key=lambda observer: -gains[observer])

    def _shortest_prefix(self, order: list[Any], wish: float) -> tuple[list[Any], float]:
        """Returns the fewest tensors from the begin of the order that reach a wish, and their quality."""
        low, high, quality = 0, len(order), inf
        while low < high:
            middle = (low + high) // 2
            found = self.measured(order[:middle])
            low, high, quality = (low, middle, found) if found >= wish else (middle + 1, high, quality)
        return order[:low], self.measured(order) if quality == inf else quality

    def _without_useless(self, chosen: list[Any], quality: float, wish: float) -> tuple[list[Any], float]:
        """Leaves out tensors without which the wish is still fulfilled, those that were taken last first."""
        for observer in chosen[::-1][:TRIED]:
            others = [other for other in chosen if other is not observer]
            found = self.measured(others)
            if found >= wish:
                chosen, quality = others, found
        return chosen, quality

    def _price(self, wide: Collection[Any]) -> float:
        """Estimates the work of all ops in 16 bits, and of conversions between widths."""
        nodes = self._widened(wide).graph.find_nodes(op="call_module")
        between = [node for node in nodes if node.all_input_nodes[0].op == "call_module"]
        converted = sum(prod(_shape(node)) for node in between)
        chosen = set(wide)
        in_16_bits = (
            work_of(c)
            for c in self.computations
            if c.has_form
            and any(observer_of(self.prepared, node) in chosen for node in (c.result, *c.operands))
        )
        return sum(in_16_bits) + CONVERSION * converted

    def measured(self, wide: Collection[Any]) -> float:
        """Returns the least signal-to-noise ratio of all outputs in dB, as the quantized program has it."""
        with quiet_torch():
            rounded = convert(self._widened(wide))
        if self.corrects:
            correct_biases(rounded, self.in_float, self.seen)
        with torch.no_grad():
            got = [_leaves(run_with_loops(rounded, *sample)) for sample in self.judging]
        columns = zip(zip(*self.wanted, strict=True), zip(*got, strict=True), strict=True)
        ratios = [signal_to_noise_db(*column) for column in columns]
        return min((ratio for ratio in ratios if ratio is not None), default=inf)

    def _widened(self, wide: Collection[Any]) -> GraphModule:
        """Returns a copy of the graph with some tensors in 16 bits. Trials change the ranges of weights, which all
        copies share: each begins with those of 8 bits."""
        for observer, largest in self.weight_ranges.items():
            observer.max_val = largest.clone()
        module = GraphModule(self.prepared, deepcopy(self.prepared.graph))
        Widening(module, set(wide)).run(computations_of(module))
        return module

    def _damage(self, wide: Collection[Any]) -> float:
        """Returns the noise of all outputs over their signals, with rounding simulated in float."""
        with quiet_torch():
            module = self._widened(wide)
        for name, child in list(module.named_modules(remove_duplicate=False)):  # tensors share observers
            if isinstance(child, ObserverBase):
                module.set_submodule(name, _Rounding(child))
        signal, noise = np.zeros(self.outputs), np.zeros(self.outputs)
        with torch.no_grad():
            for sample, wanted in zip(self.ranking, self.wanted, strict=False):
                for number, (real, got) in enumerate(
                    zip(wanted, _leaves(run_with_loops(module, *sample)), strict=True)
                ):
                    signal[number] += float(real.double().square().sum())
                    noise[number] += float((real.double() - got.double()).square().sum())
        return float((noise[signal > 0] / signal[signal > 0]).sum())

    def cost(self, observer: Any) -> float:
        """Estimates the work of the ops that would read or make a tensor in 16 bits."""
        return sum(
            work_of(c)
            for c in self.computations
            if any(observer_of(self.prepared, node) is observer for node in (c.result, *c.operands))
        )

    def name(self, observer: Any) -> str:
        """Returns a name by which `--int16` finds a tensor, and no other if there is such a name. Modules come first,
        because training has other ops."""
        bearers: dict[str, set[Any]] = {}
        for computation in self.computations:
            for name in filter(None, names_of(computation)):
                bearers.setdefault(name, set()).add(observer_of(self.prepared, computation.result))
        names = [name for name, observers in bearers.items() if observer in observers]
        modules = {module_of(node) for c in self.computations for node in c.calls}
        return min(names, key=lambda name: (len(bearers[name]), name not in modules))

    def _unreachable(self, wish: float, before: float, everywhere: float) -> PillionError:
        return PillionError(
            f"no choice of 16-bit tensors reaches {wish:g} dB",
            rule="--min-quality is at most what 16 bits everywhere reach against float, on samples of the calibration data",
            here=f"{before:.1f} dB in 8 bits, {everywhere:.1f} dB with 16 bits in all {len(self.candidates)} tensors that have such forms",
            help=f"--min-quality {max(everywhere - 1, 0):.0f}dB, or more calibration data: values beyond its ranges are clipped in 16 bits, too",
        )


def _leaves(outputs: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, Tensor)]


def work_of(computation: Computation) -> float:
    """Estimates multiplications and elements of a computation."""
    return sum(_work_of_call(node) for node in computation.calls) or 1.0


def _work_of_call(node: Node) -> float:
    """Estimates the multiplications of a layer or a product, or the elements of another result."""
    elements = prod(_shape(node))
    rule = RULES.get(node.target)
    if rule is not None and rule.weight is not None:
        return float(elements * prod(_shape(node.all_input_nodes[1])[1:]))
    depth = _shape(node.all_input_nodes[0])[-1] if node.target is aten.bmm.default else 1
    return float(elements * depth)


def _shape(node: Node) -> tuple[int, ...]:
    """Returns the shape of a tensor, observed or not."""
    while node.op == "call_module":
        node = node.all_input_nodes[0]
    value = fake_result(node)
    known = value if isinstance(value, Tensor) else constant_of(node)
    return () if known is None else tuple(known.shape)
