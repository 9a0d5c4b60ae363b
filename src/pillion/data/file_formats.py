# SPDX-License-Identifier: Apache-2.0
"""Data in files and folders: supported formats, and classes by folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np

from pillion.data import image_files, text_tables, wav_files
from pillion.data.array_samples import as_array, inputs_and_label, read_named, samples_of_arrays
from pillion.data.reading_options import TRANSFORM, Reading
from pillion.data.sample import (
    Array,
    InputSpec,
    Sample,
    element_count,
    evenly_spaced_numbers,
    input_mismatch_error,
    spread_samples,
)
from pillion.errors import PillionError
from pillion.host_io.atomic_files import regular_file, suffix_of
from pillion.host_io.user_code import run_user_code


def _array_samples(path: Path, specs: Sequence[InputSpec], source: Files) -> Iterator[Sample]:
    inputs, labels = inputs_and_label(read_named(path), specs, str(path))
    if source.reading.transform is None:
        yield from samples_of_arrays(inputs, labels, specs, str(path), source.reading)
        return
    only = _single_input(specs, path)
    for number, x in enumerate(inputs[0]):
        label = None if labels is None else labels[number]
        yield _transform_sample(x, label, only, source.reading, f"sample {number + 1} of {path}")


def _image_samples(path: Path, specs: Sequence[InputSpec], source: Files) -> Iterator[Sample]:
    only = _single_input(specs, path)
    if source.reading.transform is not None:
        yield _transform_sample(image_files.read_image_as_it_is(path), None, only, source.reading, str(path))
        return
    image = image_files.read_image(path, only, source.reading)
    yield Sample((image_files.as_input(image, only, source.reading),), None, str(path))


def _sound_samples(path: Path, specs: Sequence[InputSpec], source: Files) -> Iterator[Sample]:
    only = _single_input(specs, path)
    sound = wav_files.read_sound(path)
    if source.first_sound is not None:
        wav_files.require_same_rate(path, source.first_sound)
    if source.reading.transform is not None:
        yield _transform_sample(sound, None, only, source.reading, str(path))
        return
    yield Sample((wav_files.as_input(sound, only, source.reading, str(path)),), None, str(path))


def _table_samples(path: Path, specs: Sequence[InputSpec], source: Files) -> Iterator[Sample]:
    only = _single_input(specs, path)
    table = text_tables.open_table(path, element_count(only.of_one), source.reading)
    classes = source.reading.classes or text_tables.classes_of(table)
    yield from text_tables.samples_of_table(table, only, classes, source.reading)


Reader = Callable[[Path, Sequence[InputSpec], "Files"], Iterator[Sample]]
FORMATS: dict[str, Reader] = {
    **dict.fromkeys((".npy", ".npz"), _array_samples),
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".webp"), _image_samples),
    ".wav": _sound_samples,
    **dict.fromkeys((".csv", ".tsv"), _table_samples),
}
"""Readers by suffix."""
IN_WORDS = "arrays (.npy, .npz), images (.png, .jpg, .bmp, .ppm, .webp), sounds (.wav) or tables (.csv)"
ONE_EACH = (_image_samples, _sound_samples)
"""Readers of formats with one sample per file."""


def _single_input(specs: Sequence[InputSpec], path: Path) -> InputSpec:
    if len(specs) != 1:
        raise input_mismatch_error(
            str(path),
            specs[0],
            f"the model has {len(specs)} inputs",
            rule="images, sounds and tables go with models of one input",
            help=".npz files with an array for each input, or a function that makes the samples: file.py:function",
        )
    return specs[0]


def _transform_sample(
    raw: Array, label: Array | None, spec: InputSpec, reading: Reading, location: str
) -> Sample:
    """Returns the sample that the user's function makes of a file's content."""
    assert reading.transform is not None
    array = as_array(run_user_code(reading.transform, "--transform", raw, rule=TRANSFORM))
    if array is None:
        raise input_mismatch_error(location, spec, "the function gives no array", rule=TRANSFORM)
    plain = replace(reading, transform=None, divide=None, mean=(), std=())
    samples = list(samples_of_arrays([array], None, [spec], location, plain))
    if len(samples) != 1:
        raise input_mismatch_error(
            location, spec, f"the function gives {len(samples)} samples", rule=TRANSFORM
        )
    return replace(samples[0], label=label)


@dataclass(frozen=True)
class Files:
    """A file, or all files of a folder sorted by name. Subfolders are classes, read in turn, so that the first
    samples cover all classes."""

    path: Path
    reading: Reading

    @property
    def name(self) -> str:
        """The path of the data."""
        return str(self.path)

    @cached_property
    def found(self) -> tuple[tuple[Path, str | None], ...]:
        """The files, each with its class folder."""
        if not self.path.is_dir():
            return ((regular_file(self.path, "data"), None),)
        flat = [(file, None) for file in _data_files(self.path)]
        of_class = [
            [(file, folder.name) for file in _all_readable(folder)] for folder in _visible_folders(self.path)
        ]
        has_order = self.reading.labels is not None  # its lines follow the names
        mixed = chain(*of_class) if has_order else chain(*zip_longest(*of_class))
        classed = [file for file in mixed if file is not None]
        if flat and classed:
            raise _no_data_error(
                self.path, f"files beside folders with files: {flat[0][0].name}, {classed[0][1]}/"
            )
        return tuple(flat or classed)

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """Class names by label: the user's, the folders', or the words in a table."""
        if self.reading.classes:
            return self.reading.classes
        folders = sorted({name for _, name in self.found if name is not None})
        if folders and all(name.isascii() and name.isdigit() for name in folders):
            return ()
        if folders or suffix_of(self.path) not in (".csv", ".tsv") or self.path.is_dir():
            return tuple(folders)
        return text_tables.classes_of(text_tables.open_table(self.path, None, self.reading))

    @cached_property
    def first_sound(self) -> Path | None:
        """The first .wav file, whose sample rate all others must have."""
        return next((file for file, _ in self.found if FORMATS[suffix_of(file)] is _sound_samples), None)

    def count(self) -> int | None:
        """Returns the number of samples, if it is known before reading."""
        one_each = all(FORMATS[suffix_of(file)] in ONE_EACH for file, _ in self.found)
        return len(self.found) if one_each else None

    def samples(self, wanted: Sequence[InputSpec], most: int | None = None) -> Iterator[Sample]:
        """Reads the files lazily, one after another. Files of one sample that are left out are not read."""
        if not self.found:
            raise _no_data_error(self.path, "a folder without such files")
        labels = self._labels_from_separate_file()
        count = self.count()
        if count is None:
            read = self._read(wanted, self.found)
            yield from spread_samples(read if labels is None else _with_labels(read, labels, self), most)
            return
        if labels is not None and len(labels) != count:
            raise _label_count_error(self, f"{count:,} samples, {len(labels):,} labels")
        is_mixed = labels is None and self.found[0][1] is not None
        chosen = range(min(count, most or count)) if is_mixed else evenly_spaced_numbers(count, most)
        read = self._read(wanted, [self.found[number] for number in chosen])
        yield from read if labels is None else _with_labels(read, [labels[number] for number in chosen], self)

    def _read(self, specs: Sequence[InputSpec], files: Sequence[tuple[Path, str | None]]) -> Iterator[Sample]:
        numbers = {name: number for number, name in enumerate(self.classes)}
        for file, folder in files:
            label = None if folder is None else self._class_of(folder, numbers)
            for sample in FORMATS[suffix_of(file)](file, specs, self):
                yield sample if label is None else replace(sample, label=label)

    def _class_of(self, folder: str, numbers: dict[str, int]) -> Array:
        if not numbers:
            return np.asarray(int(folder))
        if folder not in numbers:
            raise PillionError(
                f"the folder {self.path / folder} is of no class",
                rule=f"--classes names all folders: {', '.join(numbers)}",
                here=folder,
                help=f"add {folder} to --classes, at its place among the model's outputs",
            )
        return np.asarray(numbers[folder])

    def _labels_from_separate_file(self) -> list[Array] | None:
        """Returns the labels from a separate file, if any."""
        path = self.reading.labels
        if path is None:
            return None
        if suffix_of(path) in (".csv", ".tsv", ".txt"):
            return text_tables.labels_of_table(path, self.reading)
        named = read_named(path)
        if len(named) != 1 or not next(iter(named.values())).ndim:
            raise PillionError(
                f"{path} holds no labels",
                rule="an .npy file with a label for each sample, or a table with one column",
                here=", ".join(f"{name} {list(a.shape)}" for name, a in named.items()),
                help="numpy.save('labels.npy', labels)",
            )
        return list(next(iter(named.values())))


def _with_labels(samples: Iterator[Sample], labels: Sequence[Array], source: Files) -> Iterator[Sample]:
    number = 0
    for number, sample in enumerate(samples, start=1):
        if number > len(labels):
            raise _label_count_error(source, f"{len(labels):,} labels, and more samples")
        yield replace(sample, label=np.asarray(labels[number - 1]))
    if number != len(labels):
        raise _label_count_error(source, f"{number:,} samples, {len(labels):,} labels")


def _label_count_error(source: Files, actual: str) -> PillionError:
    return PillionError(
        f"{source.reading.labels} has the labels of other data",
        rule=f"a label for each sample of {source.path}, in the same order",
        here=actual,
        help="write the labels in the order of the samples, files in the order of their names",
    )


def open_files(path: Path, reading: Reading) -> Files:
    """Opens the data at a path. Raises if it holds nothing readable."""
    if not path.exists():
        raise _no_data_error(path, f"no such path, in {Path.cwd()}")
    if not path.is_dir() and suffix_of(path) not in FORMATS:
        raise _no_data_error(path, f"suffix {path.suffix}" if path.suffix else "a file without a suffix")
    source = Files(path, reading)
    if not source.found:
        there = ", ".join(sorted(entry.name for entry in path.iterdir())[:8]) or "nothing"
        raise _no_data_error(path, f"a folder with {there}")
    return source


def _data_files(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if _is_data(f.name) and f.is_file())


def _visible_folders(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if f.is_dir() and not f.name.startswith("."))


def _all_readable(folder: Path) -> list[Path]:
    """Returns the files of a class, with subfolders; links to folders are not followed."""
    return sorted(Path(at) / name for at, _, names in os.walk(folder) for name in names if _is_data(name))


def _is_data(name: str) -> bool:
    return suffix_of(name) in FORMATS and not name.startswith(".")


def _no_data_error(path: Path, actual: str) -> PillionError:
    return PillionError(
        f"no data at {path}",
        rule=f"a file or a folder of {IN_WORDS}; or file.py:function",
        here=actual,
        help="numpy.savez('data.npz', x=inputs, y=labels), a folder for each class, or a function that gives (input, label)",
    )
