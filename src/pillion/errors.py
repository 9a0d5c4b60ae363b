# SPDX-License-Identifier: Apache-2.0
"""`PillionError`, the exception that users see; `PillionWarning`; and `one_of`, the most common check."""

from __future__ import annotations

import difflib
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any


def escape_controls(text: str) -> str:
    """Escapes characters that a terminal would act on (ESC, BEL, bidirectional marks): file names may contain
    them."""
    if text.isprintable():
        return text
    return "".join(
        mark if mark.isprintable() or mark in "\n\t" else mark.encode("unicode_escape").decode()
        for mark in text
    )


class PillionError(Exception):
    """An error that a user can act on, in four parts: the event, the rule, the place, and the remedy."""

    def __init__(self, what: str, *, rule: str, here: str, help: str) -> None:
        self.what, self.rule, self.here, self.help = what, rule, here, help
        super().__init__(str(self))

    def __str__(self) -> str:
        parts = (("rule", self.rule), ("here", self.here), ("help", self.help))
        lines = [self.what, *(f"  {label}  {_indent(text)}" for label, text in parts if text)]
        return escape_controls("\n".join(lines))

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_pickled_error, (self.what, self.rule, self.here, self.help)


class PillionWarning(UserWarning):
    """A warning that a program was compiled but its outputs may be useless."""


_given: set[tuple[str, str, int]] = set()
"""The warnings already shown, as (text, file, line)."""
PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def warn(text: str, category: type[Warning] = PillionWarning) -> None:
    """Warns at the user's line, once per line and text unless the user's filters ask for every warning.

    Python's own registry cannot do this: PyTorch changes the filters all the time, and each change clears it."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    location = (frame.f_code.co_filename, frame.f_lineno)
    if (text, *location) in _given and _warning_filter_action(text, category) in (
        "default",
        "module",
        "once",
    ):
        return
    _given.add((text, *location))
    warnings.warn_explicit(text, category, *location)


def _warning_filter_action(text: str, category: type[Warning]) -> str:
    """Returns the action that the user's filters choose for a warning."""
    for action, pattern, filter_category, _, line in warnings.filters:
        matches = pattern is None or (not isinstance(pattern, str) and pattern.match(text))
        if matches and issubclass(category, filter_category) and line == 0:
            return action
    return "default"


def distinct_lines_with_counts(lines: Iterable[str]) -> list[str]:
    """Returns each distinct line once, in order, with its count."""
    return [f"{line}  ({count} times)" if count > 1 else line for line, count in Counter(lines).items()]


def error_reason(error: BaseException) -> str:
    """Returns the first line of an error's message, or its class."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _rebuild_pickled_error(what: str, rule: str, here: str, help: str) -> PillionError:
    return PillionError(what, rule=rule, here=here, help=help)


def _indent(text: str) -> str:
    return text.replace("\n", "\n        ")


def require_one_of(option: str, value: Any, allowed: Sequence[str]) -> None:
    """Raises if the value is not among the allowed ones. `option` is spelled as the user writes it."""
    if not isinstance(value, str) or value not in allowed:
        gap = " " if option.startswith("-") else "="
        close = difflib.get_close_matches(str(value).lower(), allowed, n=1) or allowed
        raise PillionError(
            f"{option}{gap}{value} is not known",
            rule=f"{option} is one of {', '.join(allowed)}",
            here=str(value),
            help=f"{option}{gap}{close[0]}" if gap == " " else f'{option}="{close[0]}"',
        )
