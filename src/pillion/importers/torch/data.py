# SPDX-License-Identifier: Apache-2.0
"""Calibration data from files: what `pillion.data` reads, as tensors of the shapes that a model takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pillion.data.given import open_data
from pillion.data.options import AS_IT_IS, Reading
from pillion.data.sample import Source, Wanted, grouped
from pillion.importers.torch.inputs import dtype_of_input


@dataclass(frozen=True)
class CalibrationData:
    """Inputs with the shapes of the example; files are read one at a time, while they are needed, and labels are left out."""

    source: Source
    examples: tuple[Tensor, ...]
    names: tuple[str, ...] = ()
    """Of the model's inputs: arrays of several inputs may have them."""

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        wanted = wanted_of(self.examples, self.names)
        for inputs, _ in grouped(self.source.samples(wanted), wanted):
            yield tuple(map(_tensor, inputs))


def load_calibration(
    path: str | Path,
    example_inputs: Sequence[Tensor],
    reading: Reading = AS_IT_IS,
    names: Sequence[str] = (),
) -> CalibrationData:
    """Opens the data in a file, in all files of a folder in the order of their names, or of `file.py:function`."""
    return CalibrationData(open_data(path, reading), tuple(example_inputs), tuple(names))


def wanted_of(examples: Sequence[Tensor], names: Sequence[str] = ()) -> tuple[Wanted, ...]:
    """Gives what a model takes, by its example inputs; numbers stand for names that are not known."""
    known = names[: len(examples)] if len(names) >= len(examples) else [str(n) for n in range(len(examples))]
    return tuple(
        Wanted(name, tuple(x.shape), dtype_of_input(name, x.dtype))
        for name, x in zip(known, examples, strict=True)
    )


def _tensor(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))
