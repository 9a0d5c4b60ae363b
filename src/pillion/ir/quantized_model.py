# SPDX-License-Identifier: Apache-2.0
"""How a model is quantized, and the model as it was read: its graph, and the float model that it was quantized from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pillion.compile_options import Quantization
from pillion.ir.constraints import QuantizationConstraints
from pillion.ir.graph import Graph
from pillion.ir.precision_choice import PrecisionChoice, Pricing
from pillion.ir.types import Array, Shape

Progress = Callable[[int, int | None], None]
"""Called after each calibration batch with the number of batches done, and the total if known."""


@dataclass(frozen=True)
class QuantizationTask:
    """How a float model is quantized for a target."""

    options: Quantization
    """Calibration data and tuning. Without data, the example inputs determine the ranges."""
    constraints: QuantizationConstraints
    """The constraints of the target's processors."""
    progress: Progress | None = None
    pricing: Pricing | None = None
    """Compares plans where the compiler chooses tensors of 16 bits."""

    def calibrated_by(self, samples: Any) -> QuantizationTask:
        """Returns the task with other calibration data."""
        return replace(self, options=replace(self.options, calibrate=samples))


class FloatModel(Protocol):
    """The model before quantization."""

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """The shapes of the model's inputs in its source."""

    def __call__(self, inputs: Sequence[Array]) -> Mapping[str, Array]:
        """Returns the tensors of the float model by import name, in the graph's memory order."""


@dataclass(frozen=True)
class ReadModel:
    """An imported graph and, if it was quantized after training, its float model, which takes states behind its inputs."""

    graph: Graph
    floats: FloatModel | None = None
    precision: PrecisionChoice | None = None
    """The tensors with 16 bits, chosen for a quality goal."""
    samples: Sequence[Sequence[Array]] = ()
    """The first calibration samples, with the float model's states."""
    fitted_layers: int = 0
    """Layers whose weights were rounded for calibration samples."""
    file: bytes | None = None
    """The content of the .tflite file that holds exactly this graph."""
