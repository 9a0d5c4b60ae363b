# SPDX-License-Identifier: Apache-2.0
"""The one exception that users see, the one kind of warning, and the check that raises most often."""

from __future__ import annotations

import difflib
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any


class PillionError(Exception):
    """An error that a user can act on: what happened, by which rule, what was found where, and the way out."""

    def __init__(self, what: str, *, rule: str, here: str, help: str) -> None:
        self.what, self.rule, self.here, self.help = what, rule, here, help
        super().__init__(str(self))

    def __str__(self) -> str:
        parts = (("rule", self.rule), ("here", self.here), ("help", self.help))
        return "\n".join([self.what, *(f"  {label}  {_indent(text)}" for label, text in parts if text)])

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.what, self.rule, self.here, self.help)


class PillionWarning(UserWarning):
    """A warning that a user should know of: a program was made, and its answers may be of no use."""


_given: set[tuple[str, str, int]] = set()
"""The warnings that were given: text, file and line."""
PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def warn(text: str, category: type[Warning] = PillionWarning) -> None:
    """Warns of what the user's line has asked for, once for each line and text, unless the user's filters want each.

    Python would do that too, did not PyTorch change the filters all the time: with each change it forgets what was given."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    place = (frame.f_code.co_filename, frame.f_lineno)
    if (text, *place) in _given and _action(text, category) in ("default", "module", "once"):
        return
    _given.add((text, *place))
    warnings.warn_explicit(text, category, *place)


def _action(text: str, category: type[Warning]) -> str:
    """What the user's filters say of a warning."""
    for action, pattern, wanted, _, line in warnings.filters:
        matches = pattern is None or (not isinstance(pattern, str) and pattern.match(text))
        if matches and issubclass(category, wanted) and line == 0:
            return action
    return "default"


def collapsed(lines: Iterable[str]) -> list[str]:
    """Gives each line once, in order, with the number of times that it was there."""
    return [f"{line}  ({count} times)" if count > 1 else line for line, count in Counter(lines).items()]


def _rebuild(what: str, rule: str, here: str, help: str) -> PillionError:
    return PillionError(what, rule=rule, here=here, help=help)


def _indent(text: str) -> str:
    return text.replace("\n", "\n        ")


def one_of(option: str, value: Any, allowed: Sequence[str]) -> None:
    """Raises where an option has another value than it can have. The option is named as the user writes it."""
    if not isinstance(value, str) or value not in allowed:
        gap = " " if option.startswith("-") else "="
        close = difflib.get_close_matches(str(value).lower(), allowed, n=1) or allowed
        raise PillionError(
            f"{option}{gap}{value} is not known",
            rule=f"{option} is one of {', '.join(allowed)}",
            here=str(value),
            help=f"{option}{gap}{close[0]}" if gap == " " else f'{option}="{close[0]}"',
        )
