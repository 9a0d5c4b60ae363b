# SPDX-License-Identifier: Apache-2.0
"""Reads calibration data from files as tensors of the model's input shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pillion.data.python_data import PythonData, UserFunctionData, open_data
from pillion.data.reading_options import AS_IT_IS, Reading
from pillion.data.sample import InputSpec, Source, batch_samples
from pillion.importers.torch.input_types import dtype_of_input

MAX_UNSIZED_SAMPLES = 2000
"""Maximum number of samples taken from data without a length."""


@dataclass(frozen=True)
class CalibrationData:
    """Samples in the shapes of the examples, without labels. Files are read one at a time, on demand; of data
    without a length, the first ones."""

    source: Source
    examples: tuple[Tensor, ...]
    names: tuple[str, ...] = ()
    """Names of the model's inputs, for files that name their arrays."""

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        specs = expected_inputs(self.examples, self.names)
        source = self.source
        if isinstance(source, (PythonData, UserFunctionData)):
            source = replace(source, most_unsized=MAX_UNSIZED_SAMPLES)
        for inputs, _ in batch_samples(source.samples(specs), specs):
            yield tuple(torch.from_numpy(np.ascontiguousarray(array)) for array in inputs)


def load_calibration(
    path: str | Path, example_inputs: Sequence[Tensor], reading: Reading = AS_IT_IS, names: Sequence[str] = ()
) -> CalibrationData:
    """Opens a file, a folder (files sorted by name), or `file.py:function` as calibration data."""
    return CalibrationData(open_data(path, reading), tuple(example_inputs), tuple(names))


def expected_inputs(examples: Sequence[Tensor], names: Sequence[str] = ()) -> tuple[InputSpec, ...]:
    """Returns the model's expected inputs, derived from its example inputs; unnamed inputs are named by position."""
    known = names[: len(examples)] if len(names) >= len(examples) else [str(n) for n in range(len(examples))]
    return tuple(
        InputSpec(name, tuple(x.shape), dtype_of_input(name, x.dtype))
        for name, x in zip(known, examples, strict=True)
    )
