# SPDX-License-Identifier: Apache-2.0
"""Recordings of signals, cut into the steps of a program with states, and tables of the events in them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pillion.data.array_samples import inputs_and_label, read_named
from pillion.data.reading_options import Reading
from pillion.data.sample import Array, InputSpec, as_input_dtype, input_mismatch_error, normalize_channels
from pillion.data.text_tables import read_rows
from pillion.data.wav_files import rate_of, read_sound
from pillion.errors import PillionError
from pillion.host_io.atomic_files import regular_file, suffix_of

SUFFIXES = (".wav", ".npy", ".raw")
IN_WORDS = "sounds (.wav), arrays (.npy) or the bytes of all steps, one after another (.raw)"
MOST_BYTES = 1 << 30
COLUMNS = "a first line `file,seconds` or `file,seconds,event`, then a line for each event"


@dataclass(frozen=True)
class LabelledEvent:
    """An event in a recording: when it begins, and its number if that matters."""

    seconds: float
    number: int | None


@dataclass(frozen=True)
class Recording:
    """A recording as the steps of a program."""

    name: str
    steps: tuple[Array, ...]
    seconds_per_step: float


def recording_files(path: Path) -> dict[str, Path]:
    """Returns the recordings at a path, by the names that a table of events has for them."""
    if not path.is_dir():
        files = {path.name: regular_file(path, "recording")} if suffix_of(path) in SUFFIXES else {}
    else:
        found = sorted(Path(at) / name for at, _, names in os.walk(path) for name in names)
        visible = (file.relative_to(path) for file in found if suffix_of(file) in SUFFIXES)
        files = {name.as_posix(): path / name for name in visible if not name.name.startswith(".")}
    if files:
        return files
    raise PillionError(
        f"there are no recordings at {path}",
        rule=f"with --events, data are a file or a folder of {IN_WORDS}",
        here=f"suffix {path.suffix}"
        if path.suffix
        else "no such file"
        if not path.exists()
        else "none of these",
        help="numpy.save('recording.npy', samples) writes an array of any length",
    )


def read_recording(
    name: str, path: Path, wanted: InputSpec, reading: Reading, rate: float | None
) -> Recording:
    """Reads a recording for an input, and cuts it into steps; drops an incomplete step at the end."""
    suffix = suffix_of(path)
    if suffix == ".wav":
        signal = normalize_channels(read_sound(path), reading)
    elif suffix == ".npy":
        (found,), _ = inputs_and_label(read_named(path), [wanted], str(path))
        signal = as_input_dtype(found, wanted, str(path))
        if signal.dtype.kind == "f":
            signal = normalize_channels(signal, reading)
    else:
        raw = np.frombuffer(regular_file(path, ".raw", MOST_BYTES).read_bytes(), np.uint8)
        size = math.prod(wanted.shape) * wanted.dtype.size_bytes
        numbers = raw[: len(raw) // size * size].view(wanted.dtype.numpy).reshape(-1, *wanted.shape)
        signal = as_input_dtype(numbers, wanted, str(path))
    steps, frames = _steps_of(signal, wanted, path)
    steps_per_second = rate_of(path) / frames if suffix == ".wav" else rate
    if not steps_per_second:
        raise PillionError(
            f"when something happens in {path.name} is not known",
            rule="a .wav file says how many numbers a second it has; of other files --rate says how many steps",
            here=f"{path}, a rate of 0" if suffix == ".wav" else f"{path}, no --rate",
            help="--rate 50: a step is 20 milliseconds",
        )
    return Recording(name, tuple(map(wanted.quantized, steps)), 1 / steps_per_second)


def _steps_of(signal: Array, wanted: InputSpec, path: Path) -> tuple[list[Array], int]:
    """Returns the steps of a signal, which has the input's shape but along its time axis, and the frames of each:
    axes of length 1 may be missing. Steps may also lie along a first axis of their own."""
    shape = wanted.shape
    if signal.ndim and signal.shape[1:] == shape:
        return list(signal), 1
    for axis in reversed(range(len(shape))):
        others = [size for size in shape[:axis] if size > 1], [size for size in shape[axis + 1 :] if size > 1]
        found = [size for size in signal.shape if size > 1]
        place = len(others[0])
        if len(found) != len(others[0]) + len(others[1]) + 1:
            continue
        if (found[:place], found[place + 1 :]) == others and found[place] >= shape[axis]:
            count = found[place] // shape[axis]
            whole = signal.reshape(*shape[:axis], -1, *shape[axis + 1 :])
            kept = np.take(whole, range(count * shape[axis]), axis)
            return np.split(kept, count, axis), shape[axis]
    rule = f"a recording has the shape of a step, {list(shape)}, but is longer along its axis of time"
    raise input_mismatch_error(
        str(path),
        wanted,
        f"shape {list(signal.shape)}",
        rule,
        "transpose it, or look whether it is long enough",
    )


def read_events(path: Path, files: Sequence[str], classes: Sequence[str]) -> dict[str, list[LabelledEvent]]:
    """Reads a table of events: for each recording its events, in order of time."""
    found: dict[str, list[LabelledEvent]] = {name: [] for name in files}
    rows = read_rows(path)
    _, names = next(rows, (1, []))
    lower = [name.lower() for name in names]
    if lower not in (["file", "seconds"], ["file", "seconds", "event"]):
        raise _damaged_events_error(path, 1, ",".join(names) or "an empty file", COLUMNS)
    for line, cells in rows:
        if len(cells) != len(names):
            raise _damaged_events_error(path, line, f"{len(cells)} cells", f"{len(names)} cells in each line")
        if cells[0] not in found:
            raise _damaged_events_error(
                path, line, cells[0], f"a recording of the data: {', '.join(files[:8])}"
            )
        event = LabelledEvent(_seconds(path, line, cells[1]), _number(path, line, cells[2:], classes))
        found[cells[0]].append(event)
    return {name: sorted(events, key=lambda e: e.seconds) for name, events in found.items()}


def _seconds(path: Path, line: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise _damaged_events_error(
            path, line, text, "seconds from the beginning of the recording, 0 or more"
        )
    return value


def _number(path: Path, line: int, cells: Sequence[str], classes: Sequence[str]) -> int | None:
    if not cells:
        return None
    (text,) = cells
    if text in classes[1:]:
        return classes.index(text)
    if text.isascii() and text.isdigit() and int(text[:9]) > 0:
        return int(text[:9])
    rule = (
        f"one of {', '.join(classes[1:])}"
        if classes
        else "a whole number from 1 on; or --classes names them all, that of nothing first"
    )
    raise _damaged_events_error(path, line, text, rule)


def _damaged_events_error(path: Path, line: int, here: str, rule: str) -> PillionError:
    return PillionError(
        f"the table of events {path} cannot be read",
        rule=rule,
        here=f"line {line}: {here}",
        help="`file,seconds,event` in the first line, `kitchen.wav,12.4,1` in another",
    )


def read_all(
    files: dict[str, Path], wanted: InputSpec, reading: Reading, rate: float | None
) -> Iterator[Recording]:
    """Yields all recordings, read one at a time."""
    for name, path in files.items():
        yield read_recording(name, path, wanted, reading, rate)
