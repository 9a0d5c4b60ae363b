# SPDX-License-Identifier: Apache-2.0
"""The one exception that users see, and the one kind of warning."""

from __future__ import annotations


class PillionError(Exception):
    """Something a user can act on: what happened, by which rule, what was found where, and the way out."""

    def __init__(self, what: str, *, rule: str, here: str, help: str) -> None:
        self.what, self.rule, self.here, self.help = what, rule, here, help
        super().__init__(str(self))

    def __str__(self) -> str:
        parts = (("rule", self.rule), ("here", self.here), ("help", self.help))
        return "\n".join([self.what, *(f"  {label}  {_indent(text)}" for label, text in parts if text)])

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.what, self.rule, self.here, self.help)


class PillionWarning(UserWarning):
    """Something that a user should know of: a program was made, and its answers may be of no use."""


def _rebuild(what: str, rule: str, here: str, help: str) -> PillionError:
    return PillionError(what, rule=rule, here=here, help=help)


def _indent(text: str) -> str:
    return text.replace("\n", "\n        ")
