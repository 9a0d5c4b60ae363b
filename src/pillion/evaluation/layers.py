# SPDX-License-Identifier: Apache-2.0
"""Where precision is lost: every layer of a program on its own, beside the float model on the same data.

A layer is an int8 tensor that the float model has too, with what the program computes between it and the int8 tensors before. What it adds to
the noise is measured by an experiment: its operands are the float model's, rounded to int8; the layer computes on them in the exact
integers of the program, and in float; the difference of the two results is its noise, of rounded weights, of its arithmetic, of its range. This
noise alone is added to the layer's tensor in the float model, and all behind it is computed in float: what then comes out, compared with
what the float model gives, is the layer's damage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from pillion.data.sample import Array
from pillion.errors import PillionError
from pillion.evaluation.anchors import Anchor, Steps, anchor_of, float_name, is_int8, steps_of
from pillion.evaluation.hints import Hint, Tensor, hint_of
from pillion.ir.graph import Graph
from pillion.ir.op import Op, Quantization
from pillion.ir.types import Value

Progress = Callable[[int, "int | None"], None]
TOO_FEW = 0.5
"""The part of the results of multiply-accumulates that is to be found in the float model."""


class FloatTensors(Protocol):
    """A float model by its tensors: `pillion.importers.torch.float_tensors.FloatTensors`."""

    def run(self, inputs: Sequence[Array]) -> Any:
        """Computes all tensors of one sample."""

    def tensor(self, values: Any, name: str) -> Array | None:
        """Gives a tensor by its name; None where the model has none of this name."""

    def outputs(self, values: Any) -> list[Array]:
        """Gives the outputs."""

    def outputs_with(self, values: Any, name: str, instead: Array) -> list[Array]:
        """Gives what the outputs would be with other numbers in one tensor."""

    def tensor_with(self, values: Any, instead: Mapping[str, Array], name: str) -> Array:
        """Gives what a tensor would be with other numbers in tensors before it."""


@dataclass(frozen=True)
class Layer:
    """What was measured of one layer."""

    name: str
    kind: str
    source: str
    signal_to_noise_db: float | None
    """Of the int8 tensor in the running program, with all that the layers before have lost; None where nothing is lost."""
    own_db: float | None
    """Of the same tensor, with the noise of this layer alone."""
    output_db: float | None
    """Of the outputs, with the noise of this layer alone."""
    damage: float
    """The noise of the outputs over their signal, with the noise of this layer alone."""
    share: float
    """The damage as a part of the sum of all layers' damages."""
    hint: Hint


@dataclass(frozen=True)
class Comparison:
    """A program beside its float model, layer by layer; the layers that damage the outputs most come first."""

    model: str
    target: str
    samples: int
    output_db: float | None
    """The signal over the noise of the outputs, measured on the whole program."""
    expected_db: float | None
    """What the damages of all layers add up to."""
    layers: tuple[Layer, ...]
    unmatched: tuple[str, ...]
    """Int8 tensors without a float tensor of their name: they belong to the next layer that has one."""


@dataclass
class Power:
    """Sums of the squares of a signal and of its noise."""

    signal: float = 0.0
    noise: float = 0.0

    def add(self, wanted: Array, got: Array) -> None:
        """Takes in some numbers."""
        real = wanted.astype(np.float64).ravel()
        self.signal += float((real**2).sum())
        self.noise += float(((got.astype(np.float64).ravel() - real) ** 2).sum())

    @property
    def ratio(self) -> float:
        """The noise over the signal."""
        return self.noise / self.signal if self.signal else float(self.noise > 0)


def decibels(noise_over_signal: float) -> float | None:
    """Gives the signal over the noise in decibels; None where there is no noise."""
    return float(-10 * np.log10(noise_over_signal)) if noise_over_signal > 0 else None


@dataclass
class Measured:
    """What gathers of one layer, sample by sample."""

    anchor: Anchor
    op: Op
    running: Power = field(default_factory=Power)
    own: Power = field(default_factory=Power)
    outputs: list[Power] = field(default_factory=list)
    tensor: Tensor = field(default_factory=Tensor)

    @property
    def damage(self) -> float:
        """The noise of all outputs over their signals."""
        return sum(power.ratio for power in self.outputs)


class LayerByLayer:
    """The measurement: it takes samples one after another, and gives the comparison at the end."""

    def __init__(self, model: str, target: str, graph: Graph, floats: FloatTensors) -> None:
        self.model, self.target, self.floats = model, target, floats
        self.steps: Steps = steps_of(graph)
        self.layers: dict[Value, Measured] = {}
        self.unmatched: list[str] = []
        self.whole: list[Power] = []
        self.samples = 0

    def add(self, program_inputs: Sequence[Array], float_inputs: Sequence[Array]) -> None:
        """Measures all layers on one sample."""
        values = self.floats.run(float_inputs)
        held = self.steps.values(*program_inputs)
        if not self.samples:
            self._match(values, held)
        wanted = self.floats.outputs(values)
        self._add_outputs(wanted, held)
        float_values = {v: self._float(values, m.anchor) for v, m in self.layers.items()}
        for value, layer in self.layers.items():
            real = float_values[value]
            layer.running.add(real, layer.anchor.real(held[value]))
            ops = self._ops_of(value)
            exact = self._in_float(values, ops, layer.anchor, float_values)
            alone = layer.anchor.real(self._alone(value, ops, float_values, program_inputs))
            layer.own.add(real, real + alone - exact)
            layer.tensor.add(
                exact, alone, layer.anchor.real(layer.anchor.quantized(exact)), layer.anchor.value
            )
            noisy = layer.anchor.in_model(real + alone - exact)
            changed = self.floats.outputs_with(values, layer.anchor.name, noisy)
            layer.outputs = layer.outputs or [Power() for _ in wanted]
            for power, right, got in zip(layer.outputs, wanted, changed, strict=True):
                power.add(right, got)
        self.samples += 1

    def result(self) -> Comparison:
        """Gives the comparison, the most harmful layers first."""
        total = sum(layer.damage for layer in self.layers.values())
        layers = sorted(self.layers.values(), key=lambda layer: -layer.damage)
        whole = sum(power.ratio for power in self.whole)
        return Comparison(
            self.model,
            self.target,
            self.samples,
            decibels(whole),
            decibels(total),
            tuple(_described(layer, total, self._shares_with(layer)) for layer in layers),
            tuple(self.unmatched),
        )

    def _shares_with(self, layer: Measured) -> str:
        """The op in which a layer's tensor comes together with others under one scale."""
        value = layer.anchor.value
        for op in (layer.op, *self.steps.graph.users.get(value, [])):
            if op.quantization is Quantization.SHARED and len(op.activations) > 1:
                return op.name
        return ""

    def _match(self, values: Any, held: Mapping[Value, Array]) -> None:
        candidates = [v for op in self.steps.graph.ops for v in op.results if is_int8(v)]
        for value in candidates:
            anchor = anchor_of(value, self.floats.tensor(values, float_name(value)), held[value])
            if anchor is None:
                self.unmatched.append(value.name)
            else:
                self.layers[value] = Measured(anchor, self.steps.graph.producers[value])
        computing = [v for v in candidates if self.steps.graph.producers[v].macs]
        found = sum(v in self.layers for v in computing)
        if not self.layers or found < TOO_FEW * len(computing):
            raise _another_model(self.model, candidates, self.unmatched)

    def _float(self, values: Any, anchor: Anchor) -> Array:
        real = self.floats.tensor(values, anchor.name)
        assert real is not None
        return anchor.in_program(real)

    def _add_outputs(self, wanted: Sequence[Array], held: Mapping[Value, Array]) -> None:
        """What the program gives, with the axes of the float model's outputs."""
        self.whole = self.whole or [Power() for _ in wanted]
        for power, right, value in zip(self.whole, wanted, self.steps.graph.outputs, strict=True):
            got = np.asarray(held[value])
            real = (got.astype(np.float64) - value.zero_point) * value.scale if value.is_quantized else got
            anchor = _nearest(right, real)
            power.add(right, anchor)

    def _in_float(
        self, values: Any, ops: Sequence[Op], anchor: Anchor, floats: Mapping[Value, Array]
    ) -> Array:
        """What the float model computes for a layer from operands that are rounded."""
        rounded = {}
        for operand in dict.fromkeys(v for op in ops for v in op.activations if v in self.layers):
            before = self.layers[operand].anchor
            rounded[before.name] = before.in_model(before.real(before.quantized(floats[operand])))
        return anchor.in_program(self.floats.tensor_with(values, rounded, anchor.name))

    def _alone(
        self, value: Value, ops: Sequence[Op], floats: Mapping[Value, Array], inputs: Sequence[Array]
    ) -> Array:
        """The integers of a layer on operands that are rounded from the float model's."""
        known: dict[Value, Array] = self.steps.graph.given(inputs)
        for op in ops:
            for operand in op.activations:
                if operand not in known:
                    known[operand] = self.layers[operand].anchor.quantized(floats[operand])
            known.update(self.steps.compute(op, known))
        return known[value]

    def _ops_of(self, value: Value) -> list[Op]:
        """The ops between a layer's result and the layers before, in running order."""
        found: list[Op] = []
        waiting = [self.steps.graph.producers[value]]
        while waiting:
            op = waiting.pop()
            if op in found:
                found.remove(op)
            found.append(op)
            producers = self.steps.graph.producers
            waiting += [producers[v] for v in op.activations if v not in self.layers and v in producers]
        return found[::-1]


def _nearest(wanted: Array, got: Array) -> Array:
    """An output with the axes of the float model's: as it is, or an image with its channels first."""
    if got.ndim == 4 and got.transpose(0, 3, 1, 2).shape == wanted.shape:
        moved = got.transpose(0, 3, 1, 2)
        if got.shape != wanted.shape:
            return moved
        return min((got, moved), key=lambda one: float(((one - wanted) ** 2).sum()))
    return got


def _described(layer: Measured, total: float, shares_with: str) -> Layer:
    return Layer(
        layer.anchor.name,
        layer.op.kind,
        layer.op.source,
        decibels(layer.running.ratio),
        decibels(layer.own.ratio),
        decibels(layer.damage),
        layer.damage,
        layer.damage / total if total else 0.0,
        hint_of(layer.op, layer.anchor.value, layer.tensor, shares_with),
    )


def _another_model(model: str, candidates: Sequence[Value], unmatched: Sequence[str]) -> PillionError:
    return PillionError(
        f"`{model}` was not made of this float model",
        rule="the int8 tensors of a program have the names of the float model's, as Pillion gives them",
        here=f"{len(unmatched)} of {len(candidates)} have no float tensor: {', '.join(unmatched[:4])} …",
        help="name the model that the program was compiled from; programs of other tools have other names",
    )
