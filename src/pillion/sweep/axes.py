# SPDX-License-Identifier: Apache-2.0
"""The axes of a sweep: one value, several values, or a numeric range per option and argument."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pillion.compile_options import DEFAULT_OPTIONS, KEYWORDS
from pillion.errors import PillionError
from pillion.host_io.atomic_files import suffix_of
from pillion.option_parsers import parse_size
from pillion.sweep.toml_tables import TomlTable, as_short_text
from pillion.targets import find_target

Value = str | int | float | bool | tuple[Any, ...]
"""Value of an option or argument. Lists become tuples, which are hashable."""
ARGUMENTS = "arguments."
"""Prefix of argument names among options."""
MOST_VALUES = 100_000
"""Most values on one axis."""


@dataclass(frozen=True)
class AxisRange:
    """A range of numbers, integers if both bounds are. A range without a step has too many values to enumerate."""

    low: float
    high: float
    step: float | None = None
    log: bool = False

    @property
    def values(self) -> tuple[Value, ...]:
        """Returns all numbers of a stepped range in ascending order."""
        assert self.step is not None
        count = math.floor((self.high - self.low) / self.step + 1e-9) + 1
        return tuple(self._value_at(self.low + number * self.step) for number in range(count))

    @property
    def is_whole(self) -> bool:
        """Whether the range consists of integers."""
        return all(isinstance(bound, int) for bound in (self.low, self.high, self.step or 1))

    def _value_at(self, number: float) -> Value:
        return int(number) if self.is_whole else round(number, 12)


Axis = tuple[Value, ...] | AxisRange
"""The allowed values of one option: a list, or a range."""


@dataclass(frozen=True)
class SweepFolder:
    """The folder of the sweep file; relative paths in the file start there."""

    folder: Path

    def path(self, text: str) -> str:
        """Returns a path of the sweep file relative to the working directory."""
        return str(self.folder / text)

    def model(self, source: str) -> str:
        """Returns a model name, with its path resolved if it is a file; zoo names are unchanged."""
        file, colon, name = source.rpartition(":")
        if colon and suffix_of(file) == ".py":
            return f"{self.path(file)}:{name}"
        return self.path(source) if suffix_of(source) or "/" in source else source

    def metric(self, name: str) -> str:
        """Returns a metric: a known name, or a function in a file."""
        return self.model(name) if ".py:" in name else name

    def data(self, text: str) -> str:
        """Returns a data path, or `file.py:function` with its path resolved."""
        return self.model(text) if ".py:" in text else self.path(text)


Convert = Callable[[TomlTable, str, Any, SweepFolder], Value]


def read_options(table: TomlTable, place: SweepFolder, known: Mapping[str, Convert]) -> dict[str, Axis]:
    """Reads these options of `pillion compile` in a table."""
    axes = {}
    for key, convert in known.items():
        values = table.take(key)
        if values is not None:
            axes[key] = read_axis(table, key, values, convert, place)
    return axes


def read_axis(table: TomlTable, key: str, values: Any, convert: Convert, place: SweepFolder) -> Axis:
    """Reads one value, a list of values, or a range."""
    if isinstance(values, dict):
        return _read_range(TomlTable(values, table.path, f"{key} of {table.place}"))
    several = values if isinstance(values, list) else [values]
    converted = tuple(convert(table, key, value, place) for value in several)
    if not converted:
        raise table.wrong(f"{key} = []", "a value, or a list of values", f"leave `{key}` out")
    typed = [(type(value), value) for value in converted]  # true is not 1
    if len(set(typed)) < len(typed):
        _, twice = next(value for value in typed if typed.count(value) > 1)
        raise table.wrong(
            f"{key} has {as_short_text(twice)} twice", "each value once", "leave one of them out"
        )
    return converted


def _read_range(table: TomlTable) -> AxisRange:
    low, high = (table.need(key, what=float, example="a number") for key in ("low", "high"))
    step, log = table.take("step", what=float), table.take("log", False, what=bool)
    table.done()
    fine = all(math.isfinite(bound) for bound in (low, high, step or 1)) and low < high
    if not fine or (step is not None and not 0 < step <= high - low):
        here = f"low = {low}, high = {high}" + (f", step = {step}" if step is not None else "")
        raise table.wrong(here, "low < high, and a step that fits in between", "turn them round")
    if step is not None and (high - low) / step > MOST_VALUES:
        raise table.wrong(f"step = {step}", f"{MOST_VALUES:,} numbers at most", "a larger step")
    if log and (low <= 0 or step is not None):
        raise table.wrong(f"log = true, low = {low}", "log goes with low > 0 and no step", "leave log out")
    return AxisRange(low, high, step, log)


def _convert_path(table: TomlTable, key: str, value: Any, folder: SweepFolder) -> Value:
    return folder.data(_require_text(table, key, value))


def _convert_target(table: TomlTable, key: str, value: Any, folder: SweepFolder) -> Value:
    return find_target(_require_text(table, key, value)).name


def _require_text(table: TomlTable, key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise table.wrong(f"{key} = {as_short_text(value)}", "texts", f'{key} = "…"')
    return value


def _convert_option(table: TomlTable, key: str, value: Any, folder: SweepFolder) -> Value:
    """Checks an option by its record. Sizes become pairs, patterns a list."""
    default = KEYWORDS[key].default
    several = value if isinstance(value, list) and default == () else [value]
    given = f"{key} = {as_short_text(value)}"
    is_flag = isinstance(default, bool)
    if any(isinstance(one, bool) != is_flag or not isinstance(one, (str, int, float)) for one in several):
        rule = "true or false" if is_flag else "as on the command line"
        raise table.wrong(given, rule, f"{key} = {'true' if is_flag else '…'}")
    converted: Any = tuple(several) if default == () else parse_size(value) if key == "input_size" else value
    try:
        DEFAULT_OPTIONS.with_keywords({key: converted})
    except PillionError as error:
        raise table.wrong(given, error.rule, error.help) from None
    return converted


def convert_argument(table: TomlTable, key: str, value: Any, place: SweepFolder) -> Value:
    """Checks an argument for a factory; nested lists become tuples."""
    if isinstance(value, list):
        return tuple(convert_argument(table, key, item, place) for item in value)
    if not isinstance(value, (str, int, float, bool)) or (
        isinstance(value, float) and not math.isfinite(value)
    ):
        raise table.wrong(
            f"{key} = {as_short_text(value)}", "numbers, texts, true, false, lists", f"{key} = [1, 2]"
        )
    return value


NO_AXES = ("trust_pickle", "name", "state", "stateful", "state_pairs", "stream", "hop", "rows_in", "rows_of")
"""Compile options that a sweep does not vary: they change what a program is, or how it is called."""
_CONVERT = {"calibrate": _convert_path, "weights": _convert_path}
_AXES = {
    key: (option.record, _CONVERT.get(key, _convert_option))
    for key, option in KEYWORDS.items()
    if key not in NO_AXES
}
FOR_ALL: Mapping[str, Convert] = {
    "target": _convert_target,
    **{key: convert for key, (record, convert) in _AXES.items() if record != "loading"},
}
"""Compile options allowed in [options] and in a [[model]]."""
OF_MODELS: Mapping[str, Convert] = {
    key: convert for key, (record, convert) in _AXES.items() if record == "loading"
}
"""Compile options allowed only in a [[model]]."""
