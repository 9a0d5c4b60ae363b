# SPDX-License-Identifier: Apache-2.0
"""Inputs of a program, and samples that fit them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pillion.data.reading_options import Reading
from pillion.errors import PillionError
from pillion.host_io.npy_files import Array as Array
from pillion.ir.types import DType, Value

NUMBERS = "fiub"
"""numpy dtype kinds of numbers."""


@dataclass(frozen=True)
class InputSpec:
    """An input of a program: name, shape, dtype and quantization."""

    name: str
    shape: tuple[int, ...]
    dtype: DType = DType.FLOAT32
    scale: float | None = None
    zero_point: int = 0

    @classmethod
    def of(cls, value: Value, shape: tuple[int, ...] | None = None) -> InputSpec:
        """Returns the description of a graph's input or output, or of its form with another shape."""
        quantization = (value.scale, value.zero_point) if value.is_quantized else ()
        return cls(value.name, value.shape if shape is None else shape, value.dtype, *quantization)

    @property
    def rows(self) -> int:
        """Samples per run: the length of the first axis."""
        return self.shape[0] if self.shape else 1

    @property
    def of_one(self) -> tuple[int, ...]:
        """The shape of one sample, without the batch axis."""
        return self.shape[1:]

    @property
    def is_bytes(self) -> bool:
        """Whether the input's numbers are bytes that mean themselves."""
        return self.dtype is DType.UINT8 and (self.scale, self.zero_point) in ((None, 0), (1.0, 0))

    def quantized(self, real: Array) -> Array:
        """Quantizes real numbers: ties to even, saturating. Arrays of the input's dtype are unchanged."""
        if real.dtype == self.dtype.numpy or self.scale is None:
            return real
        low, high = self.dtype.bounds
        levels = np.rint(real.astype(np.float64) / self.scale) + self.zero_point
        return np.clip(levels, low, high).astype(self.dtype.numpy)

    def dequantized(self, integers: Array) -> Array:
        """Dequantizes the integers of an input."""
        if self.scale is None or integers.dtype != self.dtype.numpy:
            return integers
        return ((integers.astype(np.float32) - self.zero_point) * np.float32(self.scale)).astype(np.float32)

    def __str__(self) -> str:
        return f"{self.dtype.value}{list(self.shape)}"


@dataclass(frozen=True)
class Sample:
    """The inputs of one sample, and its label if any. The batch axis is 1, or the program's batch if the data came
    in whole inputs. Real numbers are not quantized yet."""

    inputs: tuple[Array, ...]
    label: Array | None = None
    place: str = ""
    """The sample's origin, for errors."""


class Source(Protocol):
    """Data that can be read repeatedly, one sample at a time."""

    @property
    def name(self) -> str:
        """The data's name in messages: a path, or a kind of object."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names by label; none if labels are numbers."""

    def count(self) -> int | None:
        """Returns the number of samples, if it is known before reading."""

    def samples(self, wanted: Sequence[InputSpec], most: int | None = None) -> Iterator[Sample]:
        """Reads the samples for a program with these inputs. At most `most` are spread over the data, which may be
        sorted by class; streams of unknown length give their first ones."""


def as_input_dtype(array: Array, wanted: InputSpec, place: str) -> Array:
    """Converts an array to the input's dtype. Raises unless all numbers are finite."""
    if array.dtype.kind not in NUMBERS:
        raise input_mismatch_error(place, wanted, f"it holds {array.dtype}", rule="numbers")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = int(np.flatnonzero(~np.isfinite(array))[0])
        raise PillionError(
            f"the data holds a number that is not finite: {place}",
            rule="every number is finite",
            here=f"{array.ravel()[bad]} at element {bad} of input `{wanted.name}`",
            help="look for divisions by zero and missing values where the data was made, and leave such samples out",
        )
    if array.dtype == wanted.dtype.numpy:
        return np.ascontiguousarray(array)
    if wanted.dtype is DType.FLOAT32 or wanted.scale is not None:
        return np.ascontiguousarray(array, dtype=np.float32)
    return _to_integer_exactly(array, wanted, place)


def _to_integer_exactly(array: Array, spec: InputSpec, location: str) -> Array:
    """Converts to an integer input without rounding."""
    with np.errstate(invalid="ignore"):
        integers = array.astype(spec.dtype.numpy)
    if not np.array_equal(integers, array):
        raise input_mismatch_error(
            location,
            spec,
            f"{array.dtype} from {array.min()} to {array.max()}",
            rule=f"numbers of type {spec.dtype.value}",
        )
    return integers


def split_samples(array: Array, wanted: InputSpec, place: str, labels: int | None = None) -> Array:
    """Reshapes an array to [samples, batch, …] of an input: one sample with or without batch axis, or many. If
    there are as many labels as the program's batch, an array of one whole input is that many samples."""
    shape, sample_shape = wanted.shape, wanted.of_one
    if array.shape == shape and shape:
        split = wanted.rows > 1 and labels == wanted.rows
        return array.reshape(wanted.rows, 1, *sample_shape) if split else array[np.newaxis]
    if not shape:
        return array.reshape(-1)
    if array.shape == sample_shape:
        return array.reshape(1, 1, *sample_shape)
    if array.ndim and array.shape[1:] == sample_shape:
        return _require_samples(array.reshape(len(array), 1, *sample_shape), array, wanted, place)
    if array.ndim and array.shape[1:] == shape:
        return _require_samples(array, array, wanted, place)
    if array.ndim and _without_unit_axes(array.shape[1:]) == _without_unit_axes(sample_shape):
        return _require_samples(array.reshape(len(array), 1, *sample_shape), array, wanted, place)
    if _without_unit_axes(array.shape) == _without_unit_axes(sample_shape):
        return array.reshape(1, 1, *sample_shape)
    raise input_mismatch_error(place, wanted, f"shape {list(array.shape)}")


def _without_unit_axes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns a shape without axes of length 1."""
    return tuple(size for size in shape if size != 1)


def _require_samples(many: Array, array: Array, spec: InputSpec, location: str) -> Array:
    if not len(many):
        raise input_mismatch_error(location, spec, f"shape {list(array.shape)}")
    return many


def input_mismatch_error(
    place: str, wanted: InputSpec, found: str, rule: str = "", help: str = ""
) -> PillionError:
    """Returns the error for data that does not fit an input."""
    sample_shape = list(wanted.of_one)
    return PillionError(
        f"the data does not fit the model: {place}",
        rule=rule
        or f"input `{wanted.name}` takes {wanted}: samples of {sample_shape}, or many of them along a first axis",
        here=found,
        help=help or _way_to_fit(wanted),
    )


def _way_to_fit(spec: InputSpec) -> str:
    many = ", ".join(["N", *map(str, spec.of_one)])
    return f"save an array of shape ({many}), or compile the model for inputs of the data's shape"


def batch_samples(
    samples: Iterator[Sample], wanted: Sequence[InputSpec]
) -> Iterator[tuple[tuple[Array, ...], list[Sample]]]:
    """Groups samples into whole inputs of a program, each with its samples. The last group is padded with copies
    of its last sample."""
    rows = wanted[0].rows if wanted else 1
    waiting: list[Sample] = []
    for sample in samples:
        if sample.inputs[0].shape == wanted[0].shape or rows == 1:
            yield sample.inputs, [sample]
            continue
        waiting.append(sample)
        if len(waiting) == rows:
            yield _concatenate_inputs(waiting), waiting
            waiting = []
    if waiting:
        yield _concatenate_inputs(waiting + [waiting[-1]] * (rows - len(waiting))), waiting


def _concatenate_inputs(samples: Sequence[Sample]) -> tuple[Array, ...]:
    return tuple(np.concatenate(parts) for parts in zip(*(s.inputs for s in samples), strict=True))


def evenly_spaced_numbers(count: int, most: int | None) -> list[int]:
    """Returns the numbers of at most `most` samples, in equal steps."""
    return [number * count // most for number in range(most)] if most and most < count else [*range(count)]


def spread_samples(samples: Iterator[Sample], most: int | None) -> Iterator[Sample]:
    """Yields at most `most` samples in equal steps. Reads all, and holds twice as many as it yields."""
    if most is None:
        yield from samples
        return
    buffer: list[Sample] = []
    step, count = 1, 0
    for count, sample in enumerate(samples, start=1):
        if (count - 1) % step == 0:
            buffer.append(sample)
        if len(buffer) > 2 * most:
            buffer, step = buffer[::2], 2 * step
    yield from (buffer[number // step] for number in evenly_spaced_numbers(count, most))


def element_count(shape: Sequence[int]) -> int:
    """Returns the number of elements of a shape."""
    return math.prod(shape)


def normalize_channels(real: Array, reading: Reading, channels: int = 1, *, divide: float = 1.0) -> Array:
    """Divides numbers, subtracts the mean and divides by the standard deviation, per channel of the last axis or
    overall."""
    for name, numbers in (("--mean", reading.mean), ("--std", reading.std)):
        if len(numbers) not in (0, 1, channels):
            raise PillionError(
                f"{name} has {len(numbers)} numbers",
                rule="one number, or one for each channel",
                here=f"{channels} channels",
                help=f"{name} {','.join(['0.5'] * channels)}",
            )
    real = real / real.dtype.type(reading.divide or divide)
    real = real - np.asarray(reading.mean, real.dtype) if reading.mean else real
    return real / np.asarray(reading.std, real.dtype) if reading.std else real
