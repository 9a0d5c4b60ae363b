# SPDX-License-Identifier: Apache-2.0
"""What a program takes, and a sample that fits it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pillion.errors import PillionError
from pillion.ir.types import DType

Array = np.ndarray[Any, np.dtype[Any]]
NUMBERS = "fiub"
"""Kinds of numpy's types that hold numbers."""


@dataclass(frozen=True)
class Wanted:
    """What a program takes as one of its inputs. Integers with a scale stand for real numbers."""

    name: str
    shape: tuple[int, ...]
    dtype: DType = DType.FLOAT32
    scale: float | None = None
    zero_point: int = 0

    @property
    def rows(self) -> int:
        """The samples that one run takes: the first axis."""
        return self.shape[0] if self.shape else 1

    @property
    def of_one(self) -> tuple[int, ...]:
        """The shape of one sample, without the axis of the batch."""
        return self.shape[1:]

    def quantized(self, real: Array) -> Array:
        """Gives the integers of an input for real numbers: ties to even, saturated. What is of the input's type stays."""
        if real.dtype == self.dtype.numpy or self.scale is None:
            return real
        low, high = self.dtype.bounds
        levels = np.rint(real.astype(np.float64) / self.scale) + self.zero_point
        return np.clip(levels, low, high).astype(self.dtype.numpy)

    def real(self, held: Array) -> Array:
        """Gives the real numbers that an input's integers stand for."""
        if self.scale is None or held.dtype != self.dtype.numpy:
            return held
        return ((held.astype(np.float32) - self.zero_point) * np.float32(self.scale)).astype(np.float32)

    def __str__(self) -> str:
        return f"{self.dtype.value}{list(self.shape)}"


@dataclass(frozen=True)
class Sample:
    """The inputs of one sample, and its label where there is one. An input has an axis for the batch: of 1, or, where the data came as whole
    inputs of a program, of the program's size. Real numbers are not quantized yet."""

    inputs: tuple[Array, ...]
    label: Array | None = None
    place: str = ""
    """The place that the sample came from, for errors."""


class Source(Protocol):
    """Data that can be read again and again, one sample at a time."""

    @property
    def name(self) -> str:
        """The name of the data for messages: a path, or what kind of object it is."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, by label; none where labels are numbers."""

    def count(self) -> int | None:
        """Gives the number of samples, where that is known before they are read."""

    def samples(self, wanted: Sequence[Wanted]) -> Iterator[Sample]:
        """Reads the samples, as inputs of a program that wants these."""


def fitted(array: Array, wanted: Wanted, place: str) -> Array:
    """Gives an array with the number type that an input takes; raises where it is not made of finite numbers."""
    if array.dtype.kind not in NUMBERS:
        raise does_not_fit(place, wanted, f"it holds {array.dtype}", rule="numbers")
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
    return _exactly(array, wanted, place)


def _exactly(array: Array, wanted: Wanted, place: str) -> Array:
    """Numbers that count something are not rounded."""
    with np.errstate(invalid="ignore"):
        made = array.astype(wanted.dtype.numpy)
    if not np.array_equal(made, array):
        raise does_not_fit(
            place,
            wanted,
            f"{array.dtype} from {array.min()} to {array.max()}",
            rule=f"numbers of type {wanted.dtype.value}",
        )
    return made


def pieces(array: Array, wanted: Wanted, place: str, labels: int | None = None) -> Array:
    """Gives an array as [samples, batch, …] of an input: it may be one sample, with or without its batch axis, or many. Where there are as
    many labels as the program takes samples at once, an array of its whole input is so many samples."""
    shape, one = wanted.shape, wanted.of_one
    if array.shape == shape and shape:
        split = wanted.rows > 1 and labels == wanted.rows
        return array.reshape(wanted.rows, 1, *one) if split else array[np.newaxis]
    if not shape:
        return array.reshape(-1)
    if array.shape == one:
        return array.reshape(1, 1, *one)
    if array.ndim and array.shape[1:] == one:
        return _some(array.reshape(len(array), 1, *one), array, wanted, place)
    if array.ndim and array.shape[1:] == shape:
        return _some(array, array, wanted, place)
    if array.ndim and _solid(array.shape[1:]) == _solid(one):
        return _some(array.reshape(len(array), 1, *one), array, wanted, place)
    if _solid(array.shape) == _solid(one):
        return array.reshape(1, 1, *one)
    raise does_not_fit(place, wanted, f"shape {list(array.shape)}")


def _solid(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without axes of 1, which have no order."""
    return tuple(size for size in shape if size != 1)


def _some(many: Array, array: Array, wanted: Wanted, place: str) -> Array:
    if not len(many):
        raise does_not_fit(place, wanted, f"shape {list(array.shape)}")
    return many


def does_not_fit(place: str, wanted: Wanted, found: str, rule: str = "", help: str = "") -> PillionError:
    """Makes the error for data that is no input of the program."""
    one = list(wanted.of_one)
    return PillionError(
        f"the data does not fit the model: {place}",
        rule=rule
        or f"input `{wanted.name}` takes {wanted}: samples of {one}, or many of them along a first axis",
        here=found,
        help=help or _way_to_fit(wanted),
    )


def _way_to_fit(wanted: Wanted) -> str:
    many = ", ".join(["N", *map(str, wanted.of_one)])
    return f"save an array of shape ({many}), or compile the model for inputs of the data's shape"


def grouped(
    samples: Iterator[Sample], wanted: Sequence[Wanted]
) -> Iterator[tuple[tuple[Array, ...], list[Sample]]]:
    """Gathers samples to whole inputs of a program, each with the samples that it is made of. The last one is filled up with copies of its last
    sample."""
    rows = wanted[0].rows if wanted else 1
    waiting: list[Sample] = []
    for sample in samples:
        if sample.inputs[0].shape == wanted[0].shape or rows == 1:
            yield sample.inputs, [sample]
            continue
        waiting.append(sample)
        if len(waiting) == rows:
            yield _together(waiting), waiting
            waiting = []
    if waiting:
        yield _together(waiting + [waiting[-1]] * (rows - len(waiting))), waiting


def _together(samples: Sequence[Sample]) -> tuple[Array, ...]:
    return tuple(np.concatenate(parts) for parts in zip(*(s.inputs for s in samples), strict=True))


def elements(shape: Sequence[int]) -> int:
    """Gives the number of elements of a shape."""
    return math.prod(shape)
