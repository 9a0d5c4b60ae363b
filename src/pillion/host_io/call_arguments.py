# SPDX-License-Identifier: Apache-2.0
"""Keyword arguments for functions in users' files: each gets the arguments that it accepts."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pillion.errors import PillionError


def accepted_arguments(function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments that a function accepts."""
    names = _parameter_names(function)
    return {key: value for key, value in arguments.items() if names is None or key in names}


def require_accepted(
    place: str, functions: Mapping[str, Callable[..., Any]], arguments: Mapping[str, Any]
) -> None:
    """Raises if no function accepts an argument. Functions are named as the user knows them."""
    names = {name: _parameter_names(function) for name, function in functions.items()}
    known = sorted(parameter for taken in names.values() for parameter in taken or ())
    for key in arguments:
        if all(taken is not None and key not in taken for taken in names.values()):
            close = difflib.get_close_matches(key, known, n=1)
            raise PillionError(
                f"{place} takes no argument `{key}`",
                rule=f"an argument is one of {' or '.join(functions)}",
                here=f"they take {', '.join(known)}" if known else "they take none",
                help=f"did you mean `{close[0]}`?" if close else f"def {next(iter(functions))}({key}=…): …",
            )


def _parameter_names(function: Callable[..., Any]) -> set[str] | None:
    """Returns the names of a function's parameters; None if it accepts any."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of something that Python cannot look into
        return set()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return {
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
