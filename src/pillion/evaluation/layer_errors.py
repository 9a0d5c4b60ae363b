# SPDX-License-Identifier: Apache-2.0
"""Precision loss of each layer on its own, against the float model on the same data.

A layer is an int8 tensor with a float counterpart, and the ops between it and the int8 tensors before. Its
operands are the float model's, rounded to int8; the noise is the difference between the layer's exact integer
result and its float result. The damage is the error at the outputs when only this noise is added to the float
model's tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pillion.data.sample import Array
from pillion.errors import PillionError
from pillion.evaluation.hints import Hint, NoisyTensor, hint_of
from pillion.evaluation.tensor_matching import (
    IntegerOpExecutor,
    TensorMatch,
    float_name,
    integer_op_executor,
    is_computed_integer,
    match_tensor,
)
from pillion.ir.graph import Graph
from pillion.ir.op import Op, Quantization
from pillion.ir.types import Value

if TYPE_CHECKING:
    from pillion.importers.torch.float_tensors import FloatTensors

LEAST_MATCHED_SHARE = 0.5
"""Least fraction of multiply-accumulate results with float counterparts."""

WRONG_WEIGHTS_RATIO = 0.5
"""Noise-to-signal ratio of a layer from which its weights must differ from the model's; rounding to int8 causes
far less."""


@dataclass(frozen=True)
class LayerErrors:
    """The measurements of one layer."""

    name: str
    kind: str
    source: str
    signal_to_noise_db: float | None
    """Of the int8 tensor in the whole program, with the noise of earlier layers; None without noise."""
    own_db: float | None
    """Of the same tensor with this layer's noise alone."""
    output_db: float | None
    """Of the outputs with this layer's noise alone."""
    damage: float
    """Noise-to-signal ratio of the outputs with this layer's noise alone."""
    share: float
    """Damage as a fraction of the sum over all layers."""
    hint: Hint


@dataclass(frozen=True)
class Comparison:
    """A program against its float model, layer by layer, most harmful first."""

    model: str
    target: str
    samples: int
    output_db: float | None
    """Signal-to-noise ratio of the outputs, measured on the whole program."""
    expected_db: float | None
    """Signal-to-noise ratio that the summed damages predict."""
    layers: tuple[LayerErrors, ...]
    unmatched: tuple[str, ...]
    """Int8 tensors without a float counterpart; they count for the next layer that has one."""


@dataclass
class SignalNoisePower:
    """Sums of squares of a signal and its noise."""

    signal: float = 0.0
    noise: float = 0.0

    def add(self, wanted: Array, got: Array) -> None:
        """Adds a signal and its noise."""
        real = wanted.astype(np.float64).ravel()
        self.signal += float((real**2).sum())
        self.noise += float(((got.astype(np.float64).ravel() - real) ** 2).sum())

    @property
    def ratio(self) -> float:
        """The noise-to-signal ratio."""
        return self.noise / self.signal if self.signal else float(self.noise > 0)


def decibels(noise_over_signal: float) -> float | None:
    """Converts a noise-to-signal ratio to signal-to-noise in dB; None without noise."""
    return float(-10 * np.log10(noise_over_signal)) if noise_over_signal > 0 else None


@dataclass
class LayerStatistics:
    """The statistics of one layer, summed over samples."""

    match: TensorMatch
    op: Op
    running: SignalNoisePower = field(default_factory=SignalNoisePower)
    own: SignalNoisePower = field(default_factory=SignalNoisePower)
    outputs: list[SignalNoisePower] = field(default_factory=list)
    tensor: NoisyTensor = field(default_factory=NoisyTensor)

    @property
    def damage(self) -> float:
        """Noise-to-signal ratio of all outputs."""
        return sum(power.ratio for power in self.outputs)

    @property
    def unsaturated(self) -> float:
        """The layer's own noise-to-signal ratio without values beyond its range."""
        return (self.tensor.noise - self.tensor.saturated) / self.own.signal


class LayerErrorMeasurement:
    """Measures layers sample by sample, then returns the comparison."""

    def __init__(self, model: str, target: str, graph: Graph, floats: FloatTensors) -> None:
        self.model, self.target, self.floats = model, target, floats
        self.steps: IntegerOpExecutor = integer_op_executor(graph)
        self.layers: dict[Value, LayerStatistics] = {}
        self.unmatched: list[str] = []
        self.output_power: list[SignalNoisePower] = []
        self.samples = 0

    def add(self, program_inputs: Sequence[Array], float_inputs: Sequence[Array]) -> None:
        """Measures all layers on one sample."""
        values = self.floats.run(float_inputs)
        program_values = self.steps.values(*program_inputs)
        if not self.samples:
            self._match_float_tensors(values, program_values)
        expected = self.floats.outputs(values)
        self._add_output_errors(expected, program_values)
        float_values = {v: self._float_tensor(values, m.match) for v, m in self.layers.items()}
        for value, layer in self.layers.items():
            real = float_values[value]
            layer.running.add(real, layer.match.dequantized(program_values[value]))
            ops = self._ops_of_layer(value)
            exact = self._float_result_of_layer(values, ops, layer.match, float_values)
            alone = layer.match.dequantized(
                self._isolated_layer_result(value, ops, float_values, program_inputs)
            )
            layer.own.add(real, real + alone - exact)
            layer.tensor.add(
                exact, alone, layer.match.dequantized(layer.match.quantized(exact)), layer.match.value
            )
            noisy = layer.match.in_model(real + alone - exact)
            changed = self.floats.outputs_with(values, layer.match.name, noisy)
            layer.outputs = layer.outputs or [SignalNoisePower() for _ in expected]
            for power, right, got in zip(layer.outputs, expected, changed, strict=True):
                power.add(right, got)
        self.samples += 1

    def result(self) -> Comparison:
        """Returns the comparison. Raises if the layers' weights differ from the float model's."""
        self._require_same_weights()
        total = sum(layer.damage for layer in self.layers.values())
        layers = sorted(self.layers.values(), key=lambda layer: -layer.damage)
        overall = sum(power.ratio for power in self.output_power)
        return Comparison(
            self.model,
            self.target,
            self.samples,
            decibels(overall),
            decibels(total),
            tuple(
                LayerErrors(
                    layer.match.name,
                    layer.op.kind,
                    layer.op.source,
                    decibels(layer.running.ratio),
                    decibels(layer.own.ratio),
                    decibels(layer.damage),
                    layer.damage,
                    layer.damage / total if total else 0.0,
                    hint_of(layer.op, layer.match.value, layer.tensor, self._scale_sharing_op(layer)),
                )
                for layer in layers
            ),
            tuple(self.unmatched),
        )

    def _require_same_weights(self) -> None:
        computing = [layer for layer in self.layers.values() if layer.op.macs and layer.own.signal]
        others = [layer.match.name for layer in computing if layer.unsaturated > WRONG_WEIGHTS_RATIO]
        if len(others) > len(computing) / 2:
            raise PillionError(
                f"the float model has other weights than `{self.model}`",
                rule="layers are compared with those of the float model that the program was compiled from, with its weights",
                here=f"{len(others)} of {len(computing)} layers with weights answer otherwise on the same operands: {', '.join(others[:4])}",
                help="--weights FILE with the weights that the program was compiled with; without it, net.py:Net and models of the zoo have random ones",
            )

    def _scale_sharing_op(self, layer: LayerStatistics) -> str:
        """Returns the op at which a layer's tensor shares its scale with others."""
        value = layer.match.value
        for op in (layer.op, *self.steps.graph.users.get(value, [])):
            if op.quantization is Quantization.SHARED and len(op.activations) > 1:
                return op.name
        return ""

    def _match_float_tensors(self, values: Any, program_values: Mapping[Value, Array]) -> None:
        candidates = [v for op in self.steps.graph.ops for v in op.results if is_computed_integer(v)]
        for value in candidates:
            match = match_tensor(value, self.floats.tensor(values, float_name(value)), program_values[value])
            if match is None:
                self.unmatched.append(value.name)
            else:
                self.layers[value] = LayerStatistics(match, self.steps.graph.producers[value])
        computing = [v for v in candidates if self.steps.graph.producers[v].macs]
        matched = sum(v in self.layers for v in computing)
        if not self.layers or matched < LEAST_MATCHED_SHARE * len(computing):
            raise PillionError(
                f"`{self.model}` was not made of this float model",
                rule="the int8 tensors of a program have the names of the float model's, as Pillion gives them",
                here=f"{len(self.unmatched)} of {len(candidates)} have no float tensor: {', '.join(self.unmatched[:4])} …",
                help="name the model that the program was compiled from; programs of other tools have other names",
            )

    def _float_tensor(self, values: Any, match: TensorMatch) -> Array:
        real = self.floats.tensor(values, match.name)
        assert real is not None
        return match.in_program(real)

    def _add_output_errors(self, expected: Sequence[Array], program_values: Mapping[Value, Array]) -> None:
        """Adds the program's outputs, in the float model's axis order."""
        self.output_power = self.output_power or [SignalNoisePower() for _ in expected]
        for power, right, value in zip(self.output_power, expected, self.steps.graph.outputs, strict=True):
            got = np.asarray(program_values[value])
            real = (got.astype(np.float64) - value.zero_point) * value.scale if value.is_quantized else got
            power.add(right, _in_float_axis_order(right, real))

    def _float_result_of_layer(
        self, values: Any, ops: Sequence[Op], match: TensorMatch, floats: Mapping[Value, Array]
    ) -> Array:
        """Returns the float model's result for a layer on rounded operands."""
        rounded = {}
        for operand in dict.fromkeys(v for op in ops for v in op.activations if v in self.layers):
            before = self.layers[operand].match
            rounded[before.name] = before.in_model(before.dequantized(before.quantized(floats[operand])))
        return match.in_program(self.floats.tensor_with(values, rounded, match.name))

    def _isolated_layer_result(
        self, value: Value, ops: Sequence[Op], floats: Mapping[Value, Array], inputs: Sequence[Array]
    ) -> Array:
        """Returns the integers of a layer on operands rounded from the float model's."""
        known: dict[Value, Array] = self.steps.graph.source_arrays(inputs)
        for op in ops:
            for operand in op.activations:
                if operand not in known:
                    known[operand] = self.layers[operand].match.quantized(floats[operand])
            known.update(self.steps.compute(op, known))
        return known[value]

    def _ops_of_layer(self, value: Value) -> list[Op]:
        """Returns the ops between a layer's result and earlier layers, in execution order."""
        ops: list[Op] = []
        waiting = [self.steps.graph.producers[value]]
        while waiting:
            op = waiting.pop()
            if op in ops:
                ops.remove(op)
            ops.append(op)
            producers = self.steps.graph.producers
            waiting += [producers[v] for v in op.activations if v not in self.layers and v in producers]
        return ops[::-1]


def _in_float_axis_order(expected: Array, got: Array) -> Array:
    """Returns an output in the float model's axis order: unchanged, or an image with channels first."""
    if got.ndim == 4 and got.transpose(0, 3, 1, 2).shape == expected.shape:
        moved = got.transpose(0, 3, 1, 2)
        if got.shape != expected.shape:
            return moved
        return min((got, moved), key=lambda candidate: float(((candidate - expected) ** 2).sum()))
    return got
