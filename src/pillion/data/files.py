# SPDX-License-Identifier: Apache-2.0
"""Data in files and folders: which formats there are, and which files are of which class."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from pillion.data import images, sounds, tables
from pillion.data.arrays import as_array, inputs_and_label, read_named, samples_of_arrays
from pillion.data.options import Reading
from pillion.data.sample import Array, Sample, Wanted, does_not_fit
from pillion.errors import PillionError
from pillion.outside.files import regular_file, suffix_of
from pillion.outside.user_code import run_user_code

TRANSFORM = "--transform is function(array), which gives an input of the model"


def _array_samples(path: Path, wanted: Sequence[Wanted], source: Files) -> Iterator[Sample]:
    inputs, labels = inputs_and_label(read_named(path), wanted, str(path))
    if source.reading.transform is None:
        yield from samples_of_arrays(inputs, labels, wanted, str(path), source.reading)
        return
    only = _only(wanted, path)
    for number, x in enumerate(inputs[0]):
        label = None if labels is None else labels[number]
        yield _transformed(x, label, only, source.reading, f"sample {number + 1} of {path}")


def _image_samples(path: Path, wanted: Sequence[Wanted], source: Files) -> Iterator[Sample]:
    only = _only(wanted, path)
    if source.reading.transform is not None:
        yield _transformed(images.read_image_as_it_is(path), None, only, source.reading, str(path))
        return
    image = images.read_image(path, only, source.reading)
    yield Sample((images.as_input(image, only, source.reading),), None, str(path))


def _sound_samples(path: Path, wanted: Sequence[Wanted], source: Files) -> Iterator[Sample]:
    only = _only(wanted, path)
    sound = sounds.read_sound(path)
    if source.first_sound is not None:
        sounds.want_same_rate(path, source.first_sound)
    if source.reading.transform is not None:
        yield _transformed(sound, None, only, source.reading, str(path))
        return
    yield Sample((sounds.as_input(sound, only, source.reading, str(path)),), None, str(path))


def _table_samples(path: Path, wanted: Sequence[Wanted], source: Files) -> Iterator[Sample]:
    only = _only(wanted, path)
    table = tables.open_table(path, tables.columns_for(only), source.reading)
    classes = source.reading.classes or tables.classes_of(table)
    yield from tables.samples_of_table(table, only, classes, source.reading)


Reader = Callable[[Path, Sequence[Wanted], "Files"], Iterator[Sample]]
FORMATS: dict[str, Reader] = {
    **dict.fromkeys((".npy", ".npz"), _array_samples),
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".pgm", ".webp"), _image_samples),
    ".wav": _sound_samples,
    **dict.fromkeys((".csv", ".tsv"), _table_samples),
}
"""Ends of names → how such files are read."""
IN_WORDS = "arrays (.npy, .npz), images (.png, .jpg, .bmp, .ppm, .webp), sounds (.wav) or tables (.csv)"
ONE_EACH = (_image_samples, _sound_samples)
"""What reads files with one sample in each."""


def _only(wanted: Sequence[Wanted], path: Path) -> Wanted:
    if len(wanted) != 1:
        raise does_not_fit(
            str(path),
            wanted[0],
            f"the model has {len(wanted)} inputs",
            rule="images, sounds and tables go with models of one input",
            help=".npz files with an array for each input, or a function: --data file.py:function",
        )
    return wanted[0]


def _transformed(raw: Array, label: Array | None, wanted: Wanted, reading: Reading, place: str) -> Sample:
    """What the user's function makes of a file's content."""
    assert reading.transform is not None
    made = as_array(run_user_code(reading.transform, "--transform", raw, rule=TRANSFORM))
    if made is None:
        raise does_not_fit(place, wanted, "the function gives no array", rule=TRANSFORM)
    plain = replace(reading, transform=None, divide=None, mean=(), std=())
    found = list(samples_of_arrays([made], None, [wanted], place, plain))
    if len(found) != 1:
        raise does_not_fit(place, wanted, f"the function gives {len(found)} samples", rule=TRANSFORM)
    return replace(found[0], label=label)


@dataclass(frozen=True)
class Files:
    """A file, or all files of a folder in the order of their names; a folder of folders has a class in each."""

    path: Path
    reading: Reading

    @property
    def name(self) -> str:
        """The path of the data."""
        return str(self.path)

    @cached_property
    def found(self) -> tuple[tuple[Path, str | None], ...]:
        """The files, each with the folder of its class."""
        if not self.path.is_dir():
            return ((regular_file(self.path, "data"), None),)
        flat = [(file, None) for file in _readable(self.path)]
        classed = [(file, folder.name) for folder in _folders(self.path) for file in _all_readable(folder)]
        if flat and classed:
            raise _no_data(self.path, f"files beside folders with files: {flat[0][0].name}, {classed[0][1]}/")
        return tuple(flat or classed)

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, by label: those that the user gave, the names of the folders, or the words of a table."""
        if self.reading.classes:
            return self.reading.classes
        folders = sorted({name for _, name in self.found if name is not None})
        if folders and all(name.isascii() and name.isdigit() for name in folders):
            return ()
        if folders or suffix_of(self.path) not in (".csv", ".tsv") or self.path.is_dir():
            return tuple(folders)
        return tables.classes_of(tables.open_table(self.path, None, self.reading))

    @cached_property
    def first_sound(self) -> Path | None:
        """The first .wav file: the others have its rate."""
        return next((file for file, _ in self.found if FORMATS[suffix_of(file)] is _sound_samples), None)

    def count(self) -> int | None:
        """Gives the number of samples, where a file has one."""
        one_each = all(FORMATS[suffix_of(file)] in ONE_EACH for file, _ in self.found)
        return len(self.found) if one_each else None

    def samples(self, wanted: Sequence[Wanted]) -> Iterator[Sample]:
        """Reads one file after another, while they are needed."""
        if not self.found:
            raise _no_data(self.path, "a folder without such files")
        labels = self._labels_beside()
        read = self._read(wanted)
        yield from read if labels is None else _with_labels(read, labels, self)

    def _read(self, wanted: Sequence[Wanted]) -> Iterator[Sample]:
        numbers = {name: number for number, name in enumerate(self.classes)}
        for file, folder in self.found:
            label = None if folder is None else self._class_of(folder, numbers)
            for sample in FORMATS[suffix_of(file)](file, wanted, self):
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

    def _labels_beside(self) -> list[Array] | None:
        """The labels from a file of their own."""
        path = self.reading.labels
        if path is None:
            return None
        if suffix_of(path) in (".csv", ".tsv", ".txt"):
            return tables.labels_of_table(path, self.reading)
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
            raise _other_count(source, f"{len(labels):,} labels, and more samples")
        yield replace(sample, label=np.asarray(labels[number - 1]))
    if number != len(labels):
        raise _other_count(source, f"{number:,} samples, {len(labels):,} labels")


def _other_count(source: Files, found: str) -> PillionError:
    return PillionError(
        f"{source.reading.labels} has the labels of other data",
        rule=f"a label for each sample of {source.path}, in the same order",
        here=found,
        help="write the labels in the order of the samples, files in the order of their names",
    )


def open_files(path: Path, reading: Reading) -> Files:
    """Opens the data at a path; raises where there is nothing that can be read."""
    if not path.exists():
        raise _no_data(path, f"no such path, in {Path.cwd()}")
    if not path.is_dir() and suffix_of(path) not in FORMATS:
        raise _no_data(path, f"suffix {path.suffix}" if path.suffix else "a file without a suffix")
    source = Files(path, reading)
    if not source.found:
        there = ", ".join(sorted(entry.name for entry in path.iterdir())[:8]) or "nothing"
        raise _no_data(path, f"a folder with {there}")
    return source


def _readable(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if _is_data(f.name) and f.is_file())


def _folders(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if f.is_dir() and not f.name.startswith("."))


def _all_readable(folder: Path) -> list[Path]:
    """The files of a class, those in folders inside included; links to folders are not followed."""
    return sorted(Path(at) / name for at, _, names in os.walk(folder) for name in names if _is_data(name))


def _is_data(name: str) -> bool:
    return suffix_of(name) in FORMATS and not name.startswith(".")


def _no_data(path: Path, found: str) -> PillionError:
    return PillionError(
        f"no data at {path}",
        rule=f"a file or a folder of {IN_WORDS}; or file.py:function",
        here=found,
        help="numpy.savez('data.npz', x=inputs, y=labels), a folder for each class, or a function that gives (input, label)",
    )
