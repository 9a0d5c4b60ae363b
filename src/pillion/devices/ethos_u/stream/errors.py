# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a command stream, or beyond what is known of it."""

from __future__ import annotations

from pillion.errors import PillionError


class StreamError(PillionError):
    """A command stream that does something wrong, such as an access outside its memory, or something that is not modelled."""

    def __init__(self, what: str, rule: str, here: str) -> None:
        super().__init__(what, rule=rule, here=here, help="")

    def __reduce__(self) -> tuple[object, ...]:
        return StreamError, (self.what, self.rule, self.here)


def not_modelled(what: str, here: object) -> StreamError:
    """Makes the error for what a stream asks and nothing is known of: it is never passed over."""
    return StreamError(
        f"not modelled: {what}", "every command, register, bit and mode of a stream is understood", str(here)
    )


def wrong(what: str, rule: str, here: object) -> StreamError:
    """Makes the error for a stream that would do harm, or compute nothing that is defined."""
    return StreamError(what, rule, str(here))
