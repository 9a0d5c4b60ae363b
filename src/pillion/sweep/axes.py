# SPDX-License-Identifier: Apache-2.0
"""The axes of a sweep: for each option and each argument one value, several, or numbers of a range."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pillion.boards.board import Optimize
from pillion.choices import IoDtype, IoLayout
from pillion.outside.files import suffix_of
from pillion.stripes.wish import memory_wish
from pillion.sweep.tables import Table, shown
from pillion.targets import find_target

Value = str | int | float | bool | tuple[Any, ...]
"""What an option or an argument may be. Lists are tuples here: variants have a hash."""
ARGUMENTS = "arguments."
"""Before the names of arguments, where they stand beside options."""
MOST_VALUES = 100_000
"""The most values of one axis."""


@dataclass(frozen=True)
class Range:
    """The numbers from one to another, whole ones if both are. Without a step there are too many to try them all."""

    low: float
    high: float
    step: float | None = None
    log: bool = False

    @property
    def values(self) -> tuple[Value, ...]:
        """All numbers of the range, the smallest first. There is a step."""
        assert self.step is not None
        count = math.floor((self.high - self.low) / self.step + 1e-9) + 1
        return tuple(self._at(self.low + number * self.step) for number in range(count))

    @property
    def is_whole(self) -> bool:
        """Whether the range is one of whole numbers."""
        return all(isinstance(one, int) for one in (self.low, self.high, self.step or 1))

    def _at(self, number: float) -> Value:
        return int(number) if self.is_whole else round(number, 12)


Axis = tuple[Value, ...] | Range
"""What one option may be: these values, or numbers of a range."""


@dataclass(frozen=True)
class Place:
    """The folder of the sweep file, from which its paths are seen."""

    folder: Path

    def path(self, text: str) -> str:
        """Gives a path of the file as it is seen from here."""
        return str(self.folder / text)

    def model(self, source: str) -> str:
        """Gives a model's path where it is the name of a file; names of the zoo stay."""
        file, colon, name = source.rpartition(":")
        if colon and suffix_of(file) == ".py":
            return f"{self.path(file)}:{name}"
        return self.path(source) if suffix_of(source) or "/" in source else source

    def metric(self, name: str) -> str:
        """Gives a metric: a name that Pillion knows, or a function in a file."""
        return self.model(name) if ".py:" in name else name

    def data(self, text: str) -> str:
        """Gives a path, or that of a file with the name of its function."""
        return self.model(text) if ".py:" in text else self.path(text)


Convert = Callable[[Table, str, Any, Place], Value]


def read_options(table: Table, place: Place) -> dict[str, Axis]:
    """Reads the options of `pillion compile` that a table has."""
    axes = {}
    for key, convert in FOR_ALL.items():
        values = table.take(key)
        if values is not None:
            axes[key] = read_axis(table, key, values, convert, place)
    return axes


def read_axis(table: Table, key: str, values: Any, convert: Convert, place: Place) -> Axis:
    """Reads one value, a list of them, or a range."""
    if isinstance(values, dict):
        return _range(Table(values, table.path, f"{key} of {table.place}"))
    several = values if isinstance(values, list) else [values]
    found = tuple(convert(table, key, one, place) for one in several)
    if not found:
        raise table.wrong(f"{key} = []", "a value, or a list of values", f"leave `{key}` out")
    typed = [(type(one), one) for one in found]  # true is not 1
    if len(set(typed)) < len(typed):
        _, twice = next(one for one in typed if typed.count(one) > 1)
        raise table.wrong(f"{key} has {shown(twice)} twice", "each value once", "leave one of them out")
    return found


def _range(table: Table) -> Range:
    low, high = (table.need(key, what=float, example="a number") for key in ("low", "high"))
    step, log = table.take("step", what=float), table.take("log", False, what=bool)
    table.done()
    fine = all(math.isfinite(one) for one in (low, high, step or 1)) and low < high
    if not fine or (step is not None and not 0 < step <= high - low):
        here = f"low = {low}, high = {high}" + (f", step = {step}" if step is not None else "")
        raise table.wrong(here, "low < high, and a step that fits in between", "turn them round")
    if step is not None and (high - low) / step > MOST_VALUES:
        raise table.wrong(f"step = {step}", f"{MOST_VALUES:,} numbers at most", "a larger step")
    if log and (low <= 0 or step is not None):
        raise table.wrong(f"log = true, low = {low}", "log goes with low > 0 and no step", "leave log out")
    return Range(low, high, step, log)


def _text(table: Table, key: str, value: Any, place: Place) -> Value:
    if not isinstance(value, str) or not value:
        raise table.wrong(f"{key} = {shown(value)}", "texts", f'{key} = "…"')
    return value


def _path(table: Table, key: str, value: Any, place: Place) -> Value:
    return place.data(str(_text(table, key, value, place)))


def _target(table: Table, key: str, value: Any, place: Place) -> Value:
    return find_target(str(_text(table, key, value, place))).name


def _one_of(allowed: tuple[str, ...]) -> Convert:
    def convert(table: Table, key: str, value: Any, place: Place) -> Value:
        if value not in allowed:
            raise table.wrong(
                f"{key} = {shown(value)}", f"one of {', '.join(allowed)}", f'{key} = "{allowed[0]}"'
            )
        return str(value)

    return convert


def _size(table: Table, key: str, value: Any, place: Place) -> Value:
    parts = str(value).split("x") if isinstance(value, str) else [value]
    numbers = [int(part) for part in parts if str(part).isdecimal() and not isinstance(part, bool)]
    if len(numbers) != len(parts) or len(parts) > 2 or not all(numbers):
        raise table.wrong(
            f"{key} = {shown(value)}", "one number, or height x width", f'{key} = [96, "96x128"]'
        )
    return numbers[0], numbers[-1]


def _patterns(table: Table, key: str, value: Any, place: Place) -> Value:
    several = [value] if isinstance(value, str) else value
    if not isinstance(several, list) or not all(isinstance(one, str) for one in several):
        raise table.wrong(f"{key} = {shown(value)}", "a pattern, or a list of them", f'{key} = ["softmax"]')
    return tuple(several)


def _yes_or_no(table: Table, key: str, value: Any, place: Place) -> Value:
    if not isinstance(value, bool):
        raise table.wrong(f"{key} = {shown(value)}", "true or false", f"{key} = true")
    return value


def any_value(table: Table, key: str, value: Any, place: Place) -> Value:
    """Checks what a factory is to be called with; lists within a list of values become tuples."""
    if isinstance(value, list):
        return tuple(any_value(table, key, one, place) for one in value)
    if not isinstance(value, (str, int, float, bool)) or (
        isinstance(value, float) and not math.isfinite(value)
    ):
        raise table.wrong(f"{key} = {shown(value)}", "numbers, texts, true, false, lists", f"{key} = [1, 2]")
    return value


def _memory(table: Table, key: str, value: Any, place: Place) -> Value:
    """Checks a wish for the memory, which is passed on as it was written."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise table.wrong(f"{key} = {shown(value)}", "as on the command line", f'{key} = ["256K"]')
    memory_wish(**{key: value})  # type: ignore[arg-type]  # it says so itself
    return value


FOR_ALL: Mapping[str, Convert] = {
    "target": _target,
    "optimize": _one_of(get_args(Optimize)),
    "max_ram": _memory,
    "extra": _memory,
    "calibrate": _path,
    "io_dtype": _one_of(get_args(IoDtype)),
    "io_layout": _one_of(get_args(IoLayout)),
    "keep_on_cpu": _patterns,
    "only_npu": _yes_or_no,
    "prefer_npu": _yes_or_no,
}
"""Options of `pillion compile` that may stand in [options], or in a [[model]] for it alone."""
OF_MODELS: Mapping[str, Convert] = {"weights": _path, "input_size": _size}
"""Options that mean one model."""
