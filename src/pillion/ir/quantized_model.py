# SPDX-License-Identifier: Apache-2.0
"""A model as it was read: its graph, and the float model that it was quantized from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pillion.ir.graph import Graph
from pillion.ir.precision_choice import PrecisionChoice
from pillion.ir.types import Array, Shape


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
