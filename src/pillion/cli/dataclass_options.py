# SPDX-License-Identifier: Apache-2.0
"""Groups of options: each field of a dataclass parameter becomes an option of the command."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Optional, get_args, get_origin, get_type_hints

from typer.models import OptionInfo

from pillion.cli import completion
from pillion.cli.help import DATA, GATES, INPUT, MEMORY, PLACEMENT, QUANTIZATION, RESULT, STREAM, option
from pillion.compile_options import Loading, Memory, NpuOptions, PlacementOptions, Quantization, Stream
from pillion.data.reading_options import EventOptions, Reading
from pillion.evaluation.gates import Limits
from pillion.option_record import Option, OptionField, option_fields

Command = Callable[..., None]
HEADINGS = {
    Loading: INPUT,
    Quantization: QUANTIZATION,
    PlacementOptions: PLACEMENT,
    NpuOptions: PLACEMENT,
    Memory: MEMORY,
    Stream: STREAM,
    Reading: DATA,
    EventOptions: DATA,
    Limits: GATES,
}
"""Headings of the compile options in the help; others are about the result."""


class Without(tuple[str, ...]):
    """Fields of an options group that a command does not take, as its annotation."""


def dataclass_options(command: Command) -> Command:
    """Returns the command with dataclass parameters, nested ones included, expanded to options. It builds the
    dataclasses from the typed values."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if is_dataclass(_strip_annotated(hint))}
    parameters = [
        expanded
        for parameter in signature(command).parameters.values()
        for expanded in (
            _dataclass_parameters(groups[parameter.name])
            if parameter.name in groups
            else [parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[parameter.name])]
        )
    ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        instances = {name: _build_dataclass(_strip_annotated(hint), given) for name, hint in groups.items()}
        command(**given, **instances)

    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # what inspect looks for
    run.__annotations__ = {expanded.name: expanded.annotation for expanded in parameters}
    return run


def changed_options(group: Any) -> dict[str, Any]:
    """Returns a group's options that differ from their defaults, by command line name."""
    kind: Any = type(group)
    changed: dict[str, Any] = {}
    for field in fields(kind):
        value = getattr(group, field.name)
        if is_dataclass(value):
            changed |= changed_options(value)
        elif value != field.default:
            changed[_long_name(_field_parameter(kind, field.name))] = value
    return changed


def _strip_annotated(hint: Any) -> Any:
    """Returns the type that an annotation is about."""
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _dataclass_parameters(hint: Any) -> Iterator[Parameter]:
    """Yields an option for each field of a dataclass and of the dataclasses in it."""
    left_out = [name for marker in get_args(hint)[1:] if isinstance(marker, Without) for name in marker]
    hints = _field_annotations(_strip_annotated(hint))
    for name in hints:
        if name in left_out:
            continue
        if is_dataclass(hints[name]):
            yield from _dataclass_parameters(Annotated[hints[name], Without(left_out)])
        else:
            yield _field_parameter(_strip_annotated(hint), name)


@cache
def _field_annotations(group: Any) -> dict[str, Any]:
    """Returns the annotation of each field."""
    hints = get_type_hints(group, include_extras=True)
    return {field.name: hints[field.name] for field in fields(group)}


@cache
def _field_parameter(group: Any, name: str) -> Parameter:
    """Returns the option of one field: declared for the command line, or made from a compile option."""
    annotation = _field_annotations(group)[name]
    if isinstance(get_args(annotation)[1], Option):
        heading = HEADINGS.get(group, getattr(group, "heading", RESULT))
        return _option_from_field(_record_field(group, name), heading)
    (default,) = [field.default for field in fields(group) if field.name == name]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _record_field(group: Any, name: str) -> OptionField:
    return next(candidate for candidate in option_fields(group) if candidate.field == name)


def _option_from_field(field: OptionField, heading: str) -> Parameter:
    """Returns a compile option for the command line."""
    declared, default = field.option, field.default
    typed, name = declared.typed, f"--{field.keyword.replace('_', '-')}"
    settings: dict[str, Any] = {"metavar": declared.metavar}
    if isinstance(default, bool):
        typed, name = bool, f"{name}/--no-{name[2:]}" if default else name
    elif field.choices:
        typed = Optional[str] if default is None else str
        settings = {"metavar": "|".join(field.choices), "complete": completion.complete_words(*field.choices)}
    return Parameter(
        field.keyword,
        Parameter.KEYWORD_ONLY,
        default=None if default == () else default,
        annotation=Annotated[typed, option(heading, declared.help, declared.names or name, **settings)],
    )


def _build_dataclass(group: Any, typed: dict[str, Any]) -> Any:
    """Builds a dataclass from its typed values, and removes these from the arguments."""
    values: dict[str, Any] = {}
    for name, hint in _field_annotations(group).items():
        if is_dataclass(hint):
            values[name] = _build_dataclass(hint, typed)
            continue
        parameter = _field_parameter(group, name)
        value = typed.pop(parameter.name, None)
        if value in (None, []):
            continue  # the default
        if isinstance(get_args(hint)[1], Option) and (field := _record_field(group, name)).choices:
            field.check(_long_name(parameter), value)
        values[name] = tuple(value) if isinstance(value, list) else value
    return group(**values)


def _long_name(parameter: Parameter) -> str:
    """Returns the long command line name of an option."""
    (info,) = [entry for entry in get_args(parameter.annotation)[1:] if isinstance(entry, OptionInfo)]
    declared = [entry for entry in (info.default, *(info.param_decls or ())) if isinstance(entry, str)]
    return next(
        (entry for entry in declared if entry.startswith("--")), f"--{parameter.name.replace('_', '-')}"
    )
