# SPDX-License-Identifier: Apache-2.0
"""Samples for a report: from files as calibration takes them, or from whatever can be iterated over."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from pillion.errors import PillionError
from pillion.ir.types import Array, Shape
from pillion.outside.arrays import UNREADABLE, read_arrays, reason
from pillion.run.inputs import as_arrays

SUFFIXES = (".npy", ".npz")
NUMBERS = "fiub"
SAVE = "save inputs with numpy.save (one input) or numpy.savez(x0=…, x1=…) (several, in the model's order)"


def samples(given: Any, shapes: Sequence[Shape], most: int) -> list[list[Array]]:
    """Gives at most so many samples, with an array for each input of these shapes."""
    if isinstance(given, (str, os.PathLike)):
        found = list(islice(_in_files(Path(given), shapes), most))
    else:
        found = [_fitting(one, n, shapes) for n, one in enumerate(islice(_iterated(given), most))]
    if not found:
        raise PillionError(
            "there are no samples to look at",
            rule="one sample at least",
            here=f"{given}" if isinstance(given, (str, os.PathLike)) else "the data was empty",
            help="give inputs like those that the model will see, or leave the data out",
        )
    return found


def _iterated(given: Any) -> Iterable[Any]:
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise PillionError(
            "data cannot be read",
            rule="an iterable of samples (a list, a DataLoader), or the path of a file or folder of samples",
            here=f"`data` is of type {type(given).__name__}",
            help="data=[(x,) for x in samples]",
        )
    return given


def _fitting(one: Any, number: int, shapes: Sequence[Shape]) -> list[Array]:
    """A sample as arrays of the right shapes; the axis of the batch may be missing where it is 1."""
    arrays = as_arrays(one if isinstance(one, (tuple, list)) else (one,))
    if len(arrays) != len(shapes) or any(a.dtype.kind not in NUMBERS for a in arrays):
        raise _no_sample(f"sample {number}", arrays, shapes)
    arrays = [
        a[np.newaxis] if a.shape == shape[1:] and shape[:1] == (1,) else a
        for a, shape in zip(arrays, shapes, strict=True)
    ]
    if [a.shape for a in arrays] != list(shapes):
        raise _no_sample(f"sample {number}", arrays, shapes)
    return arrays


def _no_sample(place: str, arrays: Sequence[Array], shapes: Sequence[Shape]) -> PillionError:
    return PillionError(
        f"{place} of the data is no input of the model",
        rule="a sample holds the model's inputs and nothing else: " + ", ".join(str(list(s)) for s in shapes),
        here=", ".join(f"{a.dtype}{list(a.shape)}" for a in arrays),
        help="drop labels, and give each sample the shape that the model was compiled for",
    )


def _in_files(path: Path, shapes: Sequence[Shape]) -> Iterator[list[Array]]:
    files = sorted(f for f in path.iterdir() if f.suffix in SUFFIXES) if path.is_dir() else [path]
    if not path.exists() or not files or any(f.suffix not in SUFFIXES for f in files):
        raise no_data(path)
    for file in files:
        yield from _in_file(file, shapes)


def no_data(path: Path) -> PillionError:
    """Makes the error of a path where there are no samples."""
    return PillionError(
        f"no data at {path}",
        rule="a folder with .npy or .npz files, or one such file",
        here="no such path" if not path.exists() else "no .npy or .npz file",
        help=SAVE,
    )


def _in_file(file: Path, shapes: Sequence[Shape]) -> Iterator[list[Array]]:
    try:
        held = read_arrays(file)
    except UNREADABLE as error:
        raise PillionError(
            f"cannot read {file}", rule="an .npy or .npz file of numbers", here=reason(error), help=SAVE
        ) from None
    arrays = list(held.values()) if isinstance(held, dict) else [held]
    if len(arrays) != len(shapes) or any(a.dtype.kind not in NUMBERS for a in arrays):
        raise _no_sample(str(file), arrays, shapes)
    columns = [_split(a, shape) for a, shape in zip(arrays, shapes, strict=True)]
    if len({len(c) for c in columns}) != 1 or not columns[0]:
        raise _no_sample(str(file), arrays, shapes)
    yield from (list(row) for row in zip(*columns, strict=True))


def _split(array: Array, shape: Shape) -> list[Array]:
    """An array of this shape, without the axis of its batch, or with more along it; nothing where it is none of these."""
    if array.shape == shape:
        return [array]
    if shape[:1] == (1,) and array.shape == shape[1:]:
        return [array[np.newaxis]]
    fits = bool(shape) and array.ndim == len(shape) and array.shape[1:] == shape[1:]
    batch = shape[0] if shape else 0
    if not fits or not batch or array.shape[0] % batch:
        return []
    return [array[i : i + batch] for i in range(0, array.shape[0], batch)]
