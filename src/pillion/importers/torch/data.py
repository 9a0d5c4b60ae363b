# SPDX-License-Identifier: Apache-2.0
"""Calibration data from files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pillion.errors import PillionError
from pillion.outside.arrays import UNREADABLE, read_arrays, reason

SUFFIXES = (".npy", ".npz")


@dataclass(frozen=True)
class CalibrationData:
    """Batches of inputs with the shapes of the example; files are read one at a time, while they are needed."""

    path: Path
    files: tuple[Path, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[torch.dtype, ...]

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        for file in self.files:
            yield from self._batches(file)

    def _batches(self, file: Path) -> Iterator[tuple[Tensor, ...]]:
        arrays = _read(file)
        if len(arrays) != len(self.shapes):
            raise self._mismatch(
                file, f"{len(arrays)} arrays", f"{len(self.shapes)} arrays, one for each input"
            )
        columns = [self._split(file, a, i) for i, a in enumerate(arrays)]
        counts = {len(column) for column in columns}
        if len(counts) != 1:
            raise self._mismatch(
                file, f"{sorted(counts)} samples", "the same number of samples for each input"
            )
        yield from zip(*columns, strict=True)

    def _split(self, file: Path, array: np.ndarray[Any, Any], index: int) -> list[Tensor]:
        """Samples of the example's shape, from an array of that shape, without the batch axis, or with a longer one."""
        shape = self.shapes[index]
        batch = shape[0] if shape else 1
        if array.shape == shape[1:] and batch == 1:
            array = array[np.newaxis]
        whole = (
            bool(shape) and array.ndim == len(shape) and array.shape[1:] == shape[1:] and array.shape[0] > 0
        )
        if array.shape != shape and not (whole and array.shape[0] % batch == 0):
            wanted = f"{list(shape)}, or a multiple of the first axis"
            raise self._mismatch(file, f"input {index} has shape {list(array.shape)}", wanted)
        if array.dtype.kind not in "fiub":
            raise self._mismatch(file, f"input {index} holds {array.dtype}", "numbers")
        tensor = torch.from_numpy(np.ascontiguousarray(array)).to(self.dtypes[index])
        return list(torch.split(tensor, batch)) if shape else [tensor]

    def _mismatch(self, file: Path, found: str, rule: str) -> PillionError:
        return PillionError(
            f"calibration data does not fit the model: {file}",
            rule=rule,
            here=found,
            help="save inputs with numpy.save (one input) or numpy.savez(x0=…, x1=…) (several, in the model's order)",
        )


def load_calibration(path: str | Path, example_inputs: Sequence[Tensor]) -> CalibrationData:
    """Opens the data in an .npz or .npy file, or in all such files of a directory, in the order of their names."""
    path = Path(path)
    files = tuple(sorted(f for f in path.iterdir() if f.suffix in SUFFIXES)) if path.is_dir() else (path,)
    if not path.exists() or not files or any(f.suffix not in SUFFIXES for f in files):
        raise PillionError(
            f"no calibration data at {path}",
            rule="a directory with .npy or .npz files, or one such file",
            here="no such path" if not path.exists() else "no .npy or .npz file",
            help="save inputs with numpy.save or numpy.savez",
        )
    shapes = tuple(tuple(x.shape) for x in example_inputs)
    return CalibrationData(path, files, shapes, tuple(x.dtype for x in example_inputs))


def _read(file: Path) -> list[np.ndarray[Any, Any]]:
    try:
        found = read_arrays(file)
        return [found] if isinstance(found, np.ndarray) else list(found.values())
    except UNREADABLE as error:
        raise PillionError(
            f"cannot read {file}",
            rule="an .npy or .npz file of numbers",
            here=reason(error),
            help="write it with numpy.save or numpy.savez",
        ) from None
