# SPDX-License-Identifier: Apache-2.0
"""Errors of a command stream."""

from __future__ import annotations

from pillion.errors import PillionError


class StreamError(PillionError):
    """A command stream is invalid, for example by an access outside its memory, or contains something that is
    not modelled."""

    def __init__(self, what: str, rule: str, here: str) -> None:
        super().__init__(what, rule=rule, here=here, help="")

    def __reduce__(self) -> tuple[object, ...]:
        return StreamError, (self.what, self.rule, self.here)


def not_modelled_error(what: str, here: object) -> StreamError:
    """Returns the error for a command, register, bit or mode that is not modelled."""
    return StreamError(
        f"not modelled: {what}", "every command, register, bit and mode of a stream is understood", str(here)
    )


def invalid_stream_error(what: str, rule: str, here: object) -> StreamError:
    """Returns the error for an invalid command stream."""
    return StreamError(what, rule, str(here))
