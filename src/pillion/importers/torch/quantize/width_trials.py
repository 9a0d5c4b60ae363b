# SPDX-License-Identifier: Apache-2.0
"""Tries 16-bit tensors in a calibrated graph, and compares its outputs with the float model's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from math import inf, log10
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves
from torchao.quantization.pt2e import MinMaxObserver, ObserverBase, PerChannelMinMaxObserver

from pillion.compile_options import Quantization
from pillion.importers.torch.export import quiet_torch
from pillion.importers.torch.fx_nodes import module_of
from pillion.importers.torch.input_types import cast_to_model
from pillion.importers.torch.loop_nodes import run_with_loops
from pillion.importers.torch.observers import calls_of_observers, observer_of
from pillion.importers.torch.quantize.bias_correction import correct_biases
from pillion.importers.torch.quantize.convert import convert
from pillion.importers.torch.quantize.expected_clipping import Levels, clipped_levels
from pillion.importers.torch.quantize.precision import (
    Widening,
    computations_of,
    names_of,
    widenable_observers,
)
from pillion.importers.torch.quantize.weight_rounding import restore_weights, round_weights
from pillion.importers.torch.quantize.weight_scales import choose_weight_scales

SURE = 1.64
"""Standard errors that 95 % of values exceed."""
LEAST = 1e-9
"""Smaller shares of the signal count as this much."""
Sample = tuple[Tensor, ...]
Energies = NDArray[np.float64]
"""The signal and the noise of outputs: [2, samples, outputs]."""
WeightRanges = dict[Any, Tensor]
"""The largest value of each observer of weights."""


def _weight_ranges(prepared: GraphModule) -> WeightRanges:
    """Returns the ranges of the weights of a graph."""
    return {
        observer: observer.max_val.clone()
        for observer in prepared.modules()
        if isinstance(observer, (PerChannelMinMaxObserver, MinMaxObserver))
    }


def _set_weight_ranges(ranges: WeightRanges) -> None:
    for observer, largest in ranges.items():
        observer.max_val = largest.clone()


class _Rounding(nn.Module):
    """Rounds a tensor to the levels of an observer's range."""

    def __init__(self, observer: Any, levels: Levels | None = None) -> None:
        super().__init__()
        scale, zero_point = observer.calculate_qparams()
        axis = getattr(observer, "ch_axis", 0)
        self.scale, self.zero_point = scale, zero_point
        self.axis = axis if scale.numel() > 1 else None
        self.bounds = levels or (observer.quant_min, observer.quant_max)

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


class WidthTrials:
    """A calibrated graph, and copies of it with some tensors in 16 bits. Tensors are named after their observers:
    names agree between graphs calibrated by different samples."""

    def __init__(
        self,
        prepared: GraphModule,
        in_float: GraphModule,
        seen: Sequence[Sequence[Tensor]],
        judging: Sequence[Sequence[Tensor]],
        tuning: Quantization,
        image_bits: int = 16,
        states: int = 0,
    ) -> None:
        self.prepared, self.in_float, self.tuning = prepared, in_float, tuning
        self.image_bits, self.states = image_bits, states
        self.computations = computations_of(prepared)
        names = {observer: str(calls[0].target) for observer, calls in calls_of_observers(prepared).items()}
        self.tensors = {names[o]: o for o in widenable_observers(prepared, self.computations)}
        self.weight_ranges = _weight_ranges(prepared)
        self.calibrating, self.judging = ([tuple(s) for s in samples] for samples in (seen, judging))
        self.wanted = outputs_of_runs(in_float, self.judging, states)

    def of(
        self,
        prepared: GraphModule,
        calibrating: Sequence[Sequence[Tensor]],
        judging: Sequence[Sequence[Tensor]],
    ) -> WidthTrials:
        """Returns trials of the same model with other samples."""
        more = (self.tuning, self.image_bits, self.states)
        return WidthTrials(prepared, self.in_float, calibrating, judging, *more)

    def widened(self, wide: Collection[str]) -> GraphModule:
        """Returns a copy of the graph with some tensors in 16 bits, and with fitted weights. All copies share their
        observers: the ranges of weights are reset first."""
        fits = self.tuning.fits_weights and (bool(wide) or self.tuning.weight_rounding == "fitted")
        module, ranges = self.fitted if fits else (self.prepared, self.weight_ranges)
        _set_weight_ranges(ranges)
        with quiet_torch():
            copy = GraphModule(module, deepcopy(module.graph))
        chosen = {self.tensors[name] for name in wide if name in self.tensors}
        Widening(copy, chosen, self.image_bits).run(computations_of(copy))
        return copy

    @cached_property
    def fitted(self) -> tuple[GraphModule, WeightRanges]:
        """A copy of the graph with weights fitted to the calibration samples, and the ranges of these weights."""
        _set_weight_ranges(self.weight_ranges)
        with quiet_torch():
            module = GraphModule(self.prepared, deepcopy(self.prepared.graph))
        choose_weight_scales(module)
        round_weights(module, self.calibrating, centred=self.tuning.correct_biases)
        return module, _weight_ranges(module)

    def name(self, tensor: str) -> str:
        """Returns a name for `--int16`, one that matches no other tensor if possible. Names of modules are preferred,
        because the ops of a model in training differ."""
        observer = self.tensors[tensor]
        bearers: dict[str, set[Any]] = {}
        for computation in self.computations:
            for name in filter(None, names_of(computation)):
                bearers.setdefault(name, set()).add(observer_of(self.prepared, computation.result))
        names = [name for name, observers in bearers.items() if observer in observers]
        modules = {module_of(node) for c in self.computations for node in c.calls}
        return min(names, key=lambda name: (len(bearers[name]), name not in modules))

    def final(self, wide: Collection[str]) -> GraphModule:
        """Returns the program that quantization gives for some tensors in 16 bits."""
        rounded = self.converted(wide)
        correct_biases(rounded, self.in_float, self.calibrating, change=self.tuning.correct_biases)
        return rounded

    def converted(self, wide: Collection[str]) -> GraphModule:
        """Returns a quantized program with some tensors in 16 bits, without corrected biases."""
        with quiet_torch():
            return convert(self.widened(wide))

    def measured(self, wide: Collection[str]) -> Energies:
        """Returns the signal and the noise of the quantized program for the samples that judge."""
        return self._energies(self.final(wide))

    @cached_property
    def clipped(self) -> dict[Any, Levels]:
        """The levels of 8-bit tensors that make the judging samples lose the clipping expected of further samples."""
        return clipped_levels(self.widened(()), self.tensors.values(), self.judging)

    def simulated(
        self, wide: Collection[str], *, clips: bool = False, rounds_weights: bool = True
    ) -> Energies:
        """Returns the signal and the noise for the samples that judge, with rounding simulated in float, and the expected
        clipping if `clips`."""
        levels = self.clipped if clips else {}
        with quiet_torch():
            module = self.widened(wide)
            if not rounds_weights:
                restore_weights(module, self.in_float)
        for name, child in list(module.named_modules(remove_duplicate=False)):  # tensors share observers
            if isinstance(child, ObserverBase):
                rounding = _Rounding(child, levels.get(child))
                is_exact = rounding.axis is not None and not rounds_weights
                module.set_submodule(name, nn.Identity() if is_exact else rounding)
        return self._energies(module)

    def _energies(self, module: GraphModule) -> Energies:
        got = outputs_of_runs(module, self.judging, self.states)
        pairs = [list(zip(*outputs, strict=True)) for outputs in zip(self.wanted, got, strict=False)]
        return np.array(
            [
                [[_energy(x, y, x) for x, y in outputs] for outputs in pairs],
                [[_energy(x, y, x.double() - y.double()) for x, y in outputs] for outputs in pairs],
            ]
        )


def _energy(wanted: Tensor, got: Tensor, part: Tensor) -> float:
    """Returns the energy of a part of an output; 0 if the output has integers, or numbers that are not finite."""
    is_real = all(x.is_floating_point() and bool(torch.isfinite(x).all()) for x in (wanted, got))
    return float(part.double().square().sum()) if is_real else 0.0


@dataclass(frozen=True)
class FloatRunner:
    """A float graph that runs samples one by one."""

    module: GraphModule
    input_shapes: tuple[tuple[int, ...], ...]
    name: str = "the float model"

    def outputs(self, runs: Sequence[Sequence[NDArray[Any]]]) -> list[tuple[NDArray[Any], ...]]:
        """Returns the outputs of each run."""
        return [self._outputs(run) for run in runs]

    def _outputs(self, run: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], ...]:
        with torch.no_grad():
            own = cast_to_model(self.module.graph, [torch.from_numpy(x) for x in run])
            return tuple(y.numpy() for y in _leaves(run_with_loops(self.module, *own)))


def measured_quality(judges: Sequence[WidthTrials], wide: Collection[str], errors: float = SURE) -> float:
    """Returns the quality in dB of the quantized program over the samples of all judges."""
    return quality_of([judge.measured(wide) for judge in judges], errors)


def simulated_quality(judges: Sequence[WidthTrials], wide: Collection[str], **options: bool) -> float:
    """Returns the quality in dB of rounding that is simulated in float, with the options of `simulated`: of all samples
    together, because noise of many tensors adds up in them."""
    return quality_of([judge.simulated(wide, **options) for judge in judges], errors=0.0)


def clipping_noise(trials: WidthTrials, wide: Collection[str]) -> float:
    """Returns the noise over the signal that expected clipping adds to the output that loses most."""
    clipped, rounded = (trials.simulated(wide, clips=clips).sum(axis=1) for clips in (True, False))
    (signal, with_clipping), (_, without) = clipped, rounded
    heard = signal > 0
    return float(((with_clipping - without)[heard] / signal[heard]).max(initial=0.0))


def quality_of(found: Sequence[Energies], errors: float = SURE) -> float:
    """Returns the lowest signal-to-noise ratio of all outputs in dB, reduced by some standard errors: a lower bound
    that other samples keep with 95 % probability if the judging samples are typical."""
    signal, noise = np.concatenate(found, axis=1)
    return min((_lower_bound(*column, errors) for column in zip(signal.T, noise.T, strict=True)), default=inf)


def _lower_bound(signal: NDArray[np.float64], noise: NDArray[np.float64], errors: float) -> float:
    """Returns a lower bound of an output's signal-to-noise ratio in dB; the ratio itself for one sample. The standard error
    of the noise over the signal is found by leaving out one sample after the other (the jackknife)."""
    if not signal.sum() or not noise.sum():
        return inf
    others = (noise.sum() - noise) / np.maximum(signal.sum() - signal, LEAST * signal.sum())
    error = np.std(others) * (len(signal) - 1) ** 0.5
    return float(-10 * log10(noise.sum() / signal.sum() + errors * error))


def outputs_of_runs(module: GraphModule, samples: Sequence[Sample], states: int = 0) -> list[Sample]:
    """Returns the outputs of each sample. The last inputs and outputs may be states: the module then continues with its
    own, and only the first sample's are read."""
    outputs = list[Sample]()
    with torch.no_grad():
        for sample in samples:
            continues = states and outputs
            inputs = (*sample[:-states], *outputs[-1][-states:]) if continues else sample
            outputs.append(tuple(_leaves(run_with_loops(module, *inputs))))
    return outputs


def _leaves(outputs: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, Tensor)]
