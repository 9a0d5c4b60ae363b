# SPDX-License-Identifier: Apache-2.0
"""Builds frozen dataclasses from untrusted JSON. ValueErrors name the place."""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

_T = TypeVar("_T")
_NAMES = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
_MOST_WORDS = 40


def parse_strict_json(text: str) -> object:
    """Parses JSON strictly: no duplicate keys, no NaN, printable text."""
    try:
        loaded: object = json.loads(text, object_pairs_hook=_require_unique_keys, parse_constant=_refuse_nan)
        json.dumps(loaded, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return loaded


def _require_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(
            f"`{_short_safe_text(next(k for k in keys if keys.count(k) > 1))}` stands there twice"
        )
    return mapping


def _refuse_nan(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def object_from_json(declared: type[_T], data: object, where: str = "") -> _T:
    """Builds an object of the declared type from plain data."""
    value: _T = _build_value(declared, data, where)
    return value


def _build_value(declared: Any, data: object, where: str) -> Any:
    origin, arguments = get_origin(declared), get_args(declared)
    if origin in (Union, types.UnionType):
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return None if data is None else _build_value(inner, data, where)
    if origin is Literal:
        return _require_allowed_value(arguments, data, where)
    if origin is tuple:
        items = _require_exact_type(list, data, where)
        return tuple(_build_value(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(items))
    if origin is not None and issubclass(origin, Mapping):
        pairs = _require_exact_type(dict, data, where)
        return {
            key: _build_value(arguments[1], item, _nested_location(where, key)) for key, item in pairs.items()
        }
    if dataclasses.is_dataclass(declared):
        return _build_dataclass(declared, _require_exact_type(dict, data, where), where)
    if issubclass(declared, Enum):
        return declared(_require_allowed_value([member.value for member in declared], data, where))
    return _build_scalar(declared, data, where)


def _build_dataclass(declared: Any, data: dict[str, Any], where: str) -> Any:
    hints, fields = _field_types(declared), {field.name: field for field in dataclasses.fields(declared)}
    unknown = [key for key in data if key not in fields]
    missing = [
        name for name, field in fields.items() if name not in data and field.default is dataclasses.MISSING
    ]
    if unknown or missing:
        words = (
            f"has `{_short_safe_text(unknown[0])}`, which nobody reads"
            if unknown
            else f"lacks `{missing[0]}`"
        )
        raise ValueError(f"{where or 'it'} {words}")
    values = {key: _build_value(hints[key], item, _nested_location(where, key)) for key, item in data.items()}
    try:
        return declared(**values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}" if where else str(error)) from None


@cache
def _field_types(declared: Any) -> dict[str, Any]:
    return get_type_hints(declared)


def _build_scalar(declared: type, data: object, where: str) -> object:
    if declared is float and type(data) is int:
        try:
            return float(data)
        except OverflowError:
            raise ValueError(f"{where} is larger than any float") from None
    return _require_exact_type(declared, data, where)


def _require_exact_type(declared: type, data: object, where: str) -> Any:
    """Checks the exact type, so that true is not 1."""
    if type(data) is not declared:
        expected = _NAMES.get(declared, "a number" if declared is float else "an integer")
        actual = _NAMES.get(type(data)) or _short_safe_text(data)
        raise ValueError(f"{where or 'it'} is {actual}, not {expected}")
    return data


def _require_allowed_value(allowed: Any, data: object, where: str) -> object:
    if not isinstance(data, str) or data not in allowed:
        raise ValueError(f"{where} is {_short_safe_text(data)}, not one of {', '.join(allowed)}")
    return data


def _nested_location(where: str, key: str) -> str:
    return f"{where}.{_short_safe_text(key)}" if where else _short_safe_text(key)


def _short_safe_text(data: object) -> str:
    """Returns data as short text, safe for terminals."""
    words = data if isinstance(data, str) else repr(data)
    words = "".join(c if c.isprintable() else "�" for c in words[: _MOST_WORDS + 1])
    return words if len(words) <= _MOST_WORDS else f"{words[:_MOST_WORDS]}…"


def as_plain_data(made: object) -> Any:
    """Returns the plain data from which `build` makes this object, without None."""
    if isinstance(made, Enum):
        return made.value
    if isinstance(made, (list, tuple)):
        return [as_plain_data(item) for item in made]
    if isinstance(made, Mapping):
        return {key: as_plain_data(item) for key, item in made.items()}
    if dataclasses.is_dataclass(made):
        values = {field.name: getattr(made, field.name) for field in dataclasses.fields(made)}
        return {name: as_plain_data(value) for name, value in values.items() if value is not None}
    return made
