# SPDX-License-Identifier: Apache-2.0
"""Strict reading of TOML tables: every key is requested by name and type, and other keys are refused."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pillion.errors import PillionError
from pillion.evaluation.gates import BYTE_UNITS, COUNT_UNITS, number_with_unit

_NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false", list: "a list"}
_NAMES[dict] = "a table"
_MOST_WORDS = 60


def as_short_text(data: object) -> str:
    """Returns a value of the file as short text, safe for terminals."""
    words = repr(data) if not isinstance(data, str) else f'"{data}"'
    words = "".join(c if c.isprintable() else "�" for c in words)
    return words if len(words) <= _MOST_WORDS else words[:_MOST_WORDS] + "…"


class TomlTable:
    """A table of the file. Readers take its keys one by one, then call `done`."""

    def __init__(self, data: Mapping[str, Any], path: Path, place: str) -> None:
        self._left = dict(data)
        self._asked: list[str] = []
        self.path, self.place = path, place

    def take(self, key: str, default: Any = None, *, what: type | None = None) -> Any:
        """Returns the value of a key with the given type, or the default."""
        self._asked.append(key)
        if key not in self._left:
            return default
        value = self._left.pop(key)
        if what is None or type(value) is what or (what is float and type(value) is int):
            return value
        actual = f"{_NAMES.get(type(value), type(value).__name__)}: {as_short_text(value)}"
        raise self.wrong(f"`{key}` is {actual}", f"{_NAMES[what]}", f"{key} = …, as {_NAMES[what]}")

    def need(self, key: str, *, what: type | None = None, example: str) -> Any:
        """Returns the value of a required key."""
        value = self.take(key, what=what)
        if value is None:
            raise self.wrong(f"there is no `{key}`", f"`{key}` must be there", f"{key} = {example}")
        return value

    def table(self, key: str) -> TomlTable | None:
        """Returns the table under a key, if there is one."""
        data = self.take(key, what=dict)
        return None if data is None else TomlTable(data, self.path, f"[{self._key_path(key)}]")

    def tables(self, key: str) -> list[TomlTable]:
        """Returns an array of tables."""
        data = self.take(key, [], what=list)
        if not all(isinstance(entry, dict) for entry in data):
            raise self.wrong(f"`{key}` is no list of tables", f"[[{key}]] before each", f"[[{key}]]")
        name = self._key_path(key)
        return [TomlTable(entry, self.path, f"[[{name}]] {number}") for number, entry in enumerate(data, 1)]

    def rest(self) -> dict[str, Any]:
        """Returns all keys not taken yet, for tables with free keys."""
        left, self._left = self._left, {}
        return left

    def done(self) -> None:
        """Raises if keys are left, with the nearest known key."""
        for key in self._left:
            close = difflib.get_close_matches(key, self._asked, n=1)
            raise PillionError(
                f"{self.path} has `{as_short_text(key)[1:-1]}` in {self.place}, which means nothing",
                rule="known there: " + ", ".join(sorted(self._asked)),
                here=f"{as_short_text(key)[1:-1]} = {as_short_text(self._left[key])}",
                help=f"did you mean `{close[0]}`?" if close else "leave it out",
            )

    def wrong(self, here: str, rule: str, help: str) -> PillionError:
        """Returns the error for a value of this table."""
        return PillionError(f"{self.path} cannot be used", rule=rule, here=f"{self.place}: {here}", help=help)

    def _key_path(self, key: str) -> str:
        inner = self.place.strip("[]").split("]")[0]
        return key if self.place == TOP else f"{inner}.{key}"


TOP = "the file itself"
"""The name of the top-level table in messages."""


def number_of(value: object, *, is_size: bool = False) -> float | None:
    """Returns a number, also from text: sizes such as `256K` in multiples of 1024, counts such as `20 M` in
    multiples of 1000. None if the text is no number."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value if abs(value) < float("inf") else None
    if not isinstance(value, str):
        return None
    number = number_with_unit(value, BYTE_UNITS if is_size else COUNT_UNITS)
    return int(number) if number is not None and number.is_integer() else number
