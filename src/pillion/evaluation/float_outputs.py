# SPDX-License-Identifier: Apache-2.0
"""A float model next to a program, with its axes in the program's order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pillion.data.sample import Array
from pillion.errors import PillionError
from pillion.evaluation.program_io import ProgramIo
from pillion.ir.precision_choice import FloatRuns

CHANNELS_FIRST, CHANNELS_LAST = (0, 3, 1, 2), (0, 2, 3, 1)


@dataclass(frozen=True)
class FloatReference:
    """A float model with the inputs and outputs of a program, in real numbers."""

    model: FloatRuns
    io: ProgramIo

    def __post_init__(self) -> None:
        shapes = self.model.input_shapes
        if len(shapes) != len(self.io.inputs):
            raise self._model_mismatch_error(f"{len(shapes)} inputs", f"{len(self.io.inputs)} inputs")
        for tensor, shape in zip(self.io.inputs, shapes, strict=True):
            self._match_axis_order(np.zeros(tensor.shape, np.float32), shape)

    def outputs(self, runs: Sequence[Sequence[Array]]) -> list[tuple[Array, ...]]:
        """Returns the outputs of each run, in the program's axis order."""
        return [
            self._outputs_in_program_order(ys) for ys in self.model.outputs([self.inputs(xs) for xs in runs])
        ]

    def inputs(self, run: Sequence[Array]) -> list[Array]:
        """Returns the inputs of one run in the float model's axis order."""
        return [
            self._match_axis_order(x, shape) for x, shape in zip(run, self.model.input_shapes, strict=True)
        ]

    def _outputs_in_program_order(self, ys: Sequence[Array]) -> tuple[Array, ...]:
        if len(ys) != len(self.io.outputs):
            raise self._model_mismatch_error(f"{len(ys)} outputs", f"{len(self.io.outputs)} outputs")
        return tuple(
            self._match_axis_order(y, tensor.shape) for y, tensor in zip(ys, self.io.outputs, strict=True)
        )

    def _match_axis_order(self, array: Array, shape: tuple[int, ...]) -> Array:
        """Returns the array unchanged, or an image with its channels moved."""
        if array.shape == shape:
            return array
        for order in (CHANNELS_FIRST, CHANNELS_LAST):
            if array.ndim == len(order) and array.transpose(order).shape == shape:
                return np.ascontiguousarray(array.transpose(order))
        raise self._model_mismatch_error(f"{list(shape)}", f"{list(array.shape)}")

    def _model_mismatch_error(self, a: str, b: str) -> PillionError:
        return PillionError(
            f"the float model `{self.model.name}` is another one than the program was made of",
            rule=f"inputs and outputs of the same shapes as those of `{self.io.model}`",
            here=f"{a} and {b}",
            help="name the model that the program was compiled from, with the same --input-size",
        )
