# SPDX-License-Identifier: Apache-2.0
"""Errors of a command stream, and the checks that raise them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pillion.errors import PillionError


class StreamError(PillionError):
    """A command stream is invalid, for example by an access outside its memory, or contains something that is
    not modelled."""

    def __init__(self, what: str, rule: str, here: str) -> None:
        super().__init__(what, rule=rule, here=here, help="")

    def __reduce__(self) -> tuple[object, ...]:
        return StreamError, (self.what, self.rule, self.here)


@contextmanager
def at_word(at: int) -> Iterator[None]:
    """Adds the word of a command to the errors that its decoding or execution raises."""
    try:
        yield
    except StreamError as error:
        here = ", ".join(filter(None, (error.here, f"word {at}")))
        raise StreamError(error.what, error.rule, here) from None


def not_modelled_error(what: str, here: object = "") -> StreamError:
    """Returns the error for a command, register, bit or mode that is not modelled."""
    return StreamError(
        f"not modelled: {what}", "every command, register, bit and mode of a stream is understood", str(here)
    )


def require_valid(holds: object, what: str, rule: str, here: object = "") -> None:
    """Raises if the command stream is invalid."""
    if not holds:
        raise StreamError(what, rule, str(here))


def require_modelled(holds: object, what: str, here: object = "") -> None:
    """Raises if a command, register, bit or mode is not modelled."""
    if not holds:
        raise not_modelled_error(what, here)
