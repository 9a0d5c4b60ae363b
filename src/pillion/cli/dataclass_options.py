# SPDX-License-Identifier: Apache-2.0
"""Groups of options: each field of a dataclass parameter becomes an option of the command."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import Any, get_args, get_type_hints

from typer.models import OptionInfo

Command = Callable[..., None]


def dataclass_options(command: Command) -> Command:
    """Returns the command with dataclass parameters, nested ones included, expanded to options. It builds the
    dataclasses from the typed values."""
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


def changed_options(group: Any) -> dict[str, Any]:
    """Returns a group's options that differ from their defaults, by command line name."""
    hints = get_type_hints(type(group), include_extras=True)
    given: dict[str, Any] = {}
    for field in fields(group):
        value = getattr(group, field.name)
        if is_dataclass(value):
            given |= changed_options(value)
        elif value != field.default:
            given[_option(field.name, hints[field.name])] = value
    return given


def _parameters(parameter: Parameter) -> Iterator[Parameter]:
    """Yields the parameter itself, or one for each field of its dataclass."""
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
    """Builds a dataclass from its typed values, and removes these from the arguments."""
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
    """Returns the long command line name of an option."""
    (info,) = [one for one in get_args(hint)[1:] if isinstance(one, OptionInfo)]
    declared = [one for one in (info.default, *(info.param_decls or ())) if isinstance(one, str)]
    return next((one for one in declared if one.startswith("--")), f"--{name.replace('_', '-')}")
