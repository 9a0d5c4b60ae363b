# SPDX-License-Identifier: Apache-2.0
"""Records of options: dataclasses whose fields declare their help, their spelling and their choices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Optional, Union, get_args, get_origin, get_type_hints

from pillion.errors import PillionError, require_one_of


@dataclass(frozen=True)
class Option:
    """The help text of a field, and its form on the command line."""

    help: str
    metavar: str | None = None
    keyword: str = ""
    """Its name among the keywords of `compile` and the axes of sweeps, if not the field's."""
    names: str = ""
    """Its names on the command line, if they do not follow from the keyword."""
    typed: Any = Optional[str]
    """Type on the command line of a field that is neither a flag nor a choice."""


ACCEPTED_TYPES: dict[Any, Any] = {
    int: Integral,
    float: Real,
    Path: PathLike,
    tuple: (tuple, list, str, NoneType),
    Any: object,
}
"""What a field of a type accepts, where that is more than the type: numbers of numpy, and a text or None for a tuple."""


class Checked:
    """A record that refuses unknown values of its choices, values of other types, and other values in place of records."""

    def __post_init__(self) -> None:
        record: Any = type(self)
        for field in fields(record):
            if is_dataclass(field.default):
                require_record(field.name, getattr(self, field.name), type(field.default))
        for option in option_fields(record):
            if not option.record:
                value = getattr(self, option.field)
                option.check(option.field, value)
                if option.types == (tuple,):
                    value = (value,) if isinstance(value, str) else tuple(value or ())
                    object.__setattr__(self, option.field, value)


@dataclass(frozen=True)
class OptionField:
    """A field of a record with the properties that its annotation declares."""

    record: str
    """The field of `CompileOptions` that holds the record; empty for its own fields."""
    field: str
    default: Any
    option: Option
    choices: tuple[str, ...]
    """The accepted texts; none for other types."""
    types: tuple[Any, ...]
    """The accepted types of a field without choices."""

    @property
    def keyword(self) -> str:
        """The name among the keywords of `compile`."""
        return self.option.keyword or self.field

    def check(self, name: str, value: object) -> None:
        """Raises if the value is not a choice, or of another type. `name` is the user's name of the option."""
        if self.choices and not (value is None and self.default is None):
            require_one_of(name, value, self.choices)
        accepted_types = tuple(ACCEPTED_TYPES.get(one, one) for one in self.types)
        if not self.choices and not isinstance(value, accepted_types):
            accepted = [one.__name__ for one in self.types if one is not NoneType]
            raise PillionError(
                f"{name}={value!r} is of another type",
                rule=f"{name} is of the type {' or '.join(accepted)}",
                here=type(value).__name__,
                help=f'{name}="{value}"'
                if "str" in accepted
                else "help(pillion.CompileOptions) lists all options",
            )


def require_record(name: str, value: object, record: Any) -> None:
    """Raises if an argument is not a record of this type."""
    if not isinstance(value, record):
        keywords = ", ".join(option.keyword for option in option_fields(record))
        raise PillionError(
            f"`{name}` is no record of options",
            rule=f"{name} takes a pillion.{record.__name__}; compile also takes its fields: {keywords}",
            here=f"{name}={value!r}",
            help=f"{name}=pillion.{record.__name__}(…), or one of these as a keyword of compile",
        )


@cache
def option_fields(record: type[Any], name: str = "") -> tuple[OptionField, ...]:
    """Returns the option fields of a record, including those of the records in it."""
    return tuple(_option_fields(record, name))


def _option_fields(record: type[Any], name: str) -> Iterator[OptionField]:
    hints = get_type_hints(record, include_extras=True)
    for field in fields(record):
        hint = hints[field.name]
        if is_dataclass(hint):
            yield from _option_fields(hint, field.name)  # type: ignore[arg-type]  # it is a class
            continue
        kind, option = get_args(hint)
        yield OptionField(name, field.name, field.default, option, _literal_choices(kind), _types(kind))


def _types(kind: Any) -> tuple[Any, ...]:
    """Returns the types of an annotation, without those of elements."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return tuple(one for part in get_args(kind) for one in _types(part))
    return (origin or kind,)


def _literal_choices(kind: Any) -> tuple[str, ...]:
    """Returns the texts of a Literal, or of an optional one."""
    literals = [k for k in (kind, *get_args(kind)) if get_origin(k) is Literal]
    return get_args(literals[0]) if literals else ()
