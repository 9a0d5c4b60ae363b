# SPDX-License-Identifier: Apache-2.0
"""Arrays with labels, split into samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pillion.data.reading_options import LABEL_NAMES, Reading
from pillion.data.sample import (
    NUMBERS,
    Array,
    InputSpec,
    Sample,
    as_input_dtype,
    normalize_channels,
    split_samples,
)
from pillion.errors import PillionError, error_reason
from pillion.host_io.npy_files import UNREADABLE, read_arrays


def read_named(path: Path) -> dict[str, Array]:
    """Reads the arrays of an .npz by name; the array of an .npy has the empty name."""
    try:
        arrays = read_arrays(path)
    except UNREADABLE as error:
        raise PillionError(
            f"cannot read {path}",
            rule="an .npy or .npz file of numbers",
            here=error_reason(error),
            help="write it with numpy.save or numpy.savez",
        ) from None
    return {"": arrays} if isinstance(arrays, np.ndarray) else arrays


def inputs_and_label(
    named: Mapping[str, Array], wanted: Sequence[InputSpec], place: str
) -> tuple[list[Array], Array | None]:
    """Separates inputs from labels. Labels are the array with a label's name, or the last array if there is one
    more than inputs."""
    if len(named) == len(wanted):
        return _order_as_inputs(named, wanted), None
    if len(named) == len(wanted) + 1:
        called = [name for name in named if name.lower() in LABEL_NAMES]
        label = called[0] if len(called) == 1 else list(named)[-1]
        return _order_as_inputs({name: a for name, a in named.items() if name != label}, wanted), named[label]
    names = f" ({', '.join(named)})" if any(named) else ""
    raise PillionError(
        f"the data does not fit the model: {place}",
        rule=f"{len(wanted)} arrays, one for each input, and perhaps one with labels",
        here=f"{len(named)} arrays{names}",
        help="save inputs with numpy.save (one input) or numpy.savez(x0=…, x1=…, y=labels) (several, in the model's order)",
    )


def _order_as_inputs(named: Mapping[str, Array], specs: Sequence[InputSpec]) -> list[Array]:
    """Orders arrays by the inputs' names if they match, otherwise keeps their order."""
    names = [spec.name for spec in specs]
    return [named[name] for name in names] if set(named) == set(names) else list(named.values())


def samples_of_arrays(
    inputs: Sequence[Array], labels: Array | None, wanted: Sequence[InputSpec], place: str, reading: Reading
) -> Iterator[Sample]:
    """Splits arrays into samples with labels."""
    count = len(labels) if labels is not None and labels.ndim else None
    for array, spec in zip(inputs, wanted, strict=True):
        if array.dtype.kind not in NUMBERS:
            as_input_dtype(array, spec, place)
    columns = [split_samples(array, spec, place, count) for array, spec in zip(inputs, wanted, strict=True)]
    counts = [len(column) for column in columns]
    if len(set(counts)) != 1:
        raise _unequal_counts_error(
            place, f"{counts} samples of the inputs", "the same number of samples for each input"
        )
    answers = _check_labels(labels, counts[0], place)
    for number in range(counts[0]):
        at = f"sample {number + 1} of {place}" if counts[0] > 1 else place
        parts = (np.asarray(column[number]) for column in columns)
        fit = tuple(_prepare_input(part, spec, at, reading) for part, spec in zip(parts, wanted, strict=True))
        yield Sample(fit, answers[number] if answers is not None else None, at)


def _check_labels(labels: Array | None, count: int, source: str) -> Array | None:
    """Checks for one label per sample; a single sample's label may be a scalar."""
    if labels is None:
        return None
    if labels.dtype.kind not in NUMBERS or (labels.dtype.kind == "f" and not np.isfinite(labels).all()):
        kind = (
            f"{labels.dtype} with values that are not finite"
            if labels.dtype.kind == "f"
            else str(labels.dtype)
        )
        raise _unequal_counts_error(source, f"labels of {kind}", "labels are finite numbers")
    if labels.ndim and len(labels) == count:
        return labels
    if count == 1:
        return labels[np.newaxis]
    raise _unequal_counts_error(
        source, f"{count:,} samples and labels of shape {list(labels.shape)}", "a label for each sample"
    )


def _prepare_input(part: Array, spec: InputSpec, source: str, reading: Reading) -> Array:
    if reading.divide is None and not reading.mean and not reading.std:
        return as_input_dtype(part, spec, source)
    real = as_input_dtype(part.astype(np.float32), InputSpec(spec.name, spec.shape), source)
    return _normalize_input(real, spec, reading)


def _normalize_input(real: Array, spec: InputSpec, reading: Reading) -> Array:
    """Normalizes numbers. Per-channel values apply to axis 1 of images, or to the last axis if only that has this
    many channels."""
    channels = max(len(reading.mean), len(reading.std))
    first = channels > 1 and len(spec.of_one) > 1 and spec.of_one[0] == channels
    moved = np.moveaxis(real, 1, -1) if first else real
    result = normalize_channels(moved, reading, moved.shape[-1] if moved.ndim else 1)
    return np.ascontiguousarray(np.moveaxis(result, -1, 1) if first else result, np.float32)


def _unequal_counts_error(source: str, actual: str, rule: str) -> PillionError:
    return PillionError(
        f"the data does not fit the model: {source}",
        rule=rule,
        here=actual,
        help="save inputs and labels of the same samples, in the same order",
    )


def as_array(held: Any) -> Array | None:
    """Converts an array, tensor or number to an array; returns None for anything else."""
    if isinstance(held, np.ndarray):
        return held
    if isinstance(held, (bool, int, float, np.generic)):
        return np.asarray(held)
    if hasattr(held, "detach"):
        return np.asarray(held.detach().cpu().numpy())
    return None
