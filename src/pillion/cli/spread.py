# SPDX-License-Identifier: Apache-2.0
"""Options in groups: a command that takes a dataclass has the fields of it as options."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Any, get_args, get_type_hints

from typer.models import OptionInfo

Command = Callable[..., None]


def spread(command: Command) -> Command:
    """Gives a command with the fields of its dataclasses, and of dataclasses in these, in their place; it makes the objects of what was typed."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters = [
        one
        for parameter in signature(command).parameters.values()
        for one in _parameters(parameter.replace(annotation=hints[parameter.name]))
    ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        made = {name: _made(kind, given) for name, kind in groups.items()}
        command(**given, **made)

    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # what inspect looks for
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run


def given_options(group: Any) -> dict[str, Any]:
    """Gives what was typed of a group's options, by their names on the command line: all that is not as usual."""
    hints = get_type_hints(type(group), include_extras=True)
    given: dict[str, Any] = {}
    for field in fields(group):
        value = getattr(group, field.name)
        if is_dataclass(value):
            given |= given_options(value)
        elif value != field.default:
            given[_option(field.name, hints[field.name])] = value
    return given


def _parameters(parameter: Parameter) -> Iterator[Parameter]:
    """The parameter itself, or one for each field of its dataclass."""
    if not is_dataclass(parameter.annotation):
        yield parameter.replace(kind=Parameter.KEYWORD_ONLY)
        return
    hints = get_type_hints(parameter.annotation, include_extras=True)
    for field in fields(parameter.annotation):
        one = Parameter(
            field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        yield from _parameters(one)


def _made(kind: Any, given: dict[str, Any]) -> Any:
    """An object of what was typed for its fields, which is taken out."""
    hints = get_type_hints(kind)
    return kind(
        **{
            field.name: _made(hints[field.name], given)
            if is_dataclass(hints[field.name])
            else given.pop(field.name)
            for field in fields(kind)
        }
    )


def _option(name: str, hint: Any) -> str:
    """The long name of an option on the command line."""
    (info,) = [one for one in get_args(hint)[1:] if isinstance(one, OptionInfo)]
    declared = [one for one in (info.default, *(info.param_decls or ())) if isinstance(one, str)]
    return next((one for one in declared if one.startswith("--")), f"--{name.replace('_', '-')}")
