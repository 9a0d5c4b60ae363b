# SPDX-License-Identifier: Apache-2.0
"""Data as Python objects: arrays, PyTorch datasets and loaders, lists and generators of samples."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from pillion.data.array_samples import as_array, inputs_and_label, samples_of_arrays
from pillion.data.file_formats import open_files
from pillion.data.reading_options import AS_IT_IS, Reading
from pillion.data.sample import Array, InputSpec, Sample, Source, evenly_spaced_numbers, spread_samples
from pillion.errors import PillionError, warn
from pillion.host_io.user_code import function_of, run_user_code, split_spec

FUNCTION = "file.py:function: a function without arguments that gives samples, (input, label), or a dataset or loader of them"
SAMPLES = "samples: arrays or tensors, (input, label), or batches of them"


@dataclass(frozen=True)
class PythonData:
    """Samples in memory, or from an iterable."""

    things: Any
    reading: Reading = AS_IT_IS
    name: str = "the data"
    classes: tuple[str, ...] = ()
    most_unsized: int | None = None
    """The number of items taken from things without a length; None for all."""

    def count(self) -> int | None:
        """Returns the number of samples of arrays or a dataset; None for batches."""
        if isinstance(self.things, Mapping) or _is_array(self.things) or _is_arrays(self.things):
            return None
        is_dataset = hasattr(self.things, "__getitem__") and not hasattr(self.things, "batch_size")
        try:
            return len(self.things) if is_dataset else None
        except TypeError:  # a dataset of a stream has a len that raises
            return None

    def samples(self, wanted: Sequence[InputSpec], most: int | None = None) -> Iterator[Sample]:
        """Yields the samples; batches are split. Samples of arrays and datasets are spread evenly over them."""
        if self._is_one_item(wanted):
            yield from spread_samples(self._of_items([(1, self.things)], wanted), most)
            return
        count = self.count() if most else None
        things = self.things if self.most_unsized is None else limit_unsized(self.things, self.most_unsized)
        items: Iterable[tuple[int, Any]] = enumerate(items_of(things, self.name), start=1)
        if count is not None:
            items = ((number + 1, self.things[number]) for number in evenly_spaced_numbers(count, most))
        yield from islice(self._of_items(items, wanted), most)

    def _of_items(self, items: Iterable[tuple[int, Any]], specs: Sequence[InputSpec]) -> Iterator[Sample]:
        for number, item in items:
            place = f"item {number} of {self.name}"
            inputs, label = inputs_and_label(_arrays_by_name(item, place, len(specs)), specs, place)
            yield from samples_of_arrays(inputs, label, specs, place, self.reading)

    def _is_one_item(self, specs: Sequence[InputSpec]) -> bool:
        things = self.things
        return (
            isinstance(things, Mapping)
            or _is_array(things)
            or (_is_arrays(things) and _is_input_tuple(things, specs))
        )


def _is_array(things: Any) -> bool:
    """Whether the object is an array or a tensor; a plain number is not."""
    return as_array(things) is not None and hasattr(things, "__getitem__")


def _is_arrays(things: Any) -> bool:
    """Whether the object is a tuple of arrays."""
    return isinstance(things, tuple) and bool(things) and all(as_array(item) is not None for item in things)


def _is_input_tuple(things: Sequence[Any], specs: Sequence[InputSpec]) -> bool:
    """Whether a tuple holds an array per input, and perhaps labels; otherwise it is a tuple of samples."""
    if len(things) == len(specs) + 1:
        first, last = as_array(things[0]), as_array(things[-1])
        assert first is not None
        assert last is not None
        return first.shape != last.shape or len(specs) > 1
    return len(things) == len(specs)


def items_of(things: Any, name: str) -> Iterator[Any]:
    """Yields samples. A dataset is an object with a length and integer indexing."""
    if hasattr(things, "__len__") and hasattr(things, "__getitem__") and not hasattr(things, "__iter__"):
        yield from (things[number] for number in range(len(things)))
        return
    try:
        iterator = iter(things)
    except TypeError:
        raise _no_samples_error(things, name) from None
    yield from iterator


def limit_unsized(things: Any, most: int) -> Any:
    """Returns objects with a length unchanged. Of others, returns at most `most` items, and warns if more follow."""
    return (
        things
        if length_of(things) is not None or not hasattr(things, "__iter__")
        else _take_first(things, most)
    )


def length_of(things: Any) -> int | None:
    """Returns the length, or None; loaders of streams have a `len` that raises."""
    try:
        return len(things)
    except TypeError:
        return None


def _take_first(things: Iterable[Any], most: int) -> Iterator[Any]:
    for number, item in enumerate(things):
        if number == most:
            warn(
                f"calibration takes the first {number:,} items of data without a length, and more are there: "
                "itertools.islice(samples, 200) says how many to take, a list has its own length"
            )
            return
        yield item


def _arrays_by_name(item: Any, location: str, inputs: int) -> dict[str, Array]:
    """Returns the arrays of a sample or batch by name; a tuple's arrays by number."""
    if isinstance(item, Mapping):
        named = {str(name): as_array(part) for name, part in item.items()}
    elif as_array(item) is not None:
        named = {"0": as_array(item)}
    elif isinstance(item, (tuple, list)):
        named = {str(i): as_array(part) for i, part in enumerate(_flatten_inputs(item, inputs))}
    else:
        named = {"": None}
    arrays = {name: part for name, part in named.items() if part is not None}
    if len(arrays) != len(named):
        raise PillionError(
            f"{location} is no input of the model",
            rule=SAMPLES,
            here=describe_object(item),
            help="yield (input, label), or a tuple of all inputs and then the label",
        )
    return arrays


def _flatten_inputs(item: Sequence[Any], inputs: int) -> list[Any]:
    """Flattens ((a, b), label) for several inputs."""
    if inputs > 1 and len(item) == 2 and isinstance(item[0], (tuple, list)):
        return [*item[0], item[1]]
    return list(item)


def describe_object(thing: Any) -> str:
    """Describes an object in an error: arrays by type and shape, others by class."""
    array = as_array(thing)
    if array is not None:
        return f"{array.dtype}{list(array.shape)}"
    if isinstance(thing, (tuple, list)):
        shown = ", ".join(map(describe_object, thing[:4]))
        return f"({shown}{', …' if len(thing) > 4 else ''})"
    return "None" if thing is None else f"a {type(thing).__name__}"


def _no_samples_error(things: Any, name: str) -> PillionError:
    return PillionError(
        f"{name} cannot be gone through",
        rule="a list, dataset, loader or generator of " + SAMPLES,
        here=describe_object(things),
        help="call it: samples()" if callable(things) else "[(x, y) for x, y in pairs]",
    )


@dataclass(frozen=True)
class UserFunctionData:
    """Samples from a user's function, called anew for each pass."""

    spec: str
    reading: Reading
    classes: tuple[str, ...] = ()
    most_unsized: int | None = None
    """The number of items taken if the function gives no length; None for all."""
    _opened: list[Callable[..., Any]] = field(default_factory=list, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The file and the function."""
        return self.spec

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def count(self) -> int | None:
        """Returns None, because counting would call the function."""
        return None

    def samples(self, wanted: Sequence[InputSpec], most: int | None = None) -> Iterator[Sample]:
        """Calls the function and yields its samples."""
        if not self._opened:
            self._opened.append(function_of(self.spec, FUNCTION))
        items = run_user_code(self._opened[0], self.spec, rule=FUNCTION)
        source = PythonData(items, self.reading, self.spec, most_unsized=self.most_unsized)
        yield from _report_generator_errors(source.samples(wanted, most), self.spec)


def _report_generator_errors(samples: Iterator[Sample], spec: str) -> Iterator[Sample]:
    """Reports errors inside a generator like errors of the function."""
    end = object()
    while True:
        sample = run_user_code(next, spec, samples, end, rule=FUNCTION)
        if sample is end:
            return
        yield sample


Data = str | os.PathLike[str] | Iterable[Any] | Source
"""A path, `file.py:function`, or samples as Python objects."""


def open_data(data: Any, reading: Reading = AS_IT_IS) -> Source:
    """Returns the source for a path, `file.py:function` or Python objects."""
    if isinstance(data, (str, os.PathLike)):
        text = os.fspath(data)
        if split_spec(text)[1]:
            return UserFunctionData(text, reading, reading.classes)
        return open_files(Path(text), reading)
    if hasattr(data, "samples") and hasattr(data, "count"):
        return data  # a source already
    if reading.labels is not None or reading.label_column is not None:
        raise PillionError(
            "labels of a file go with data of files",
            rule="labels and label_column say where the labels of files are",
            here=describe_object(data),
            help="give pairs: (inputs, labels)",
        )
    return PythonData(data, reading, classes=reading.classes)
