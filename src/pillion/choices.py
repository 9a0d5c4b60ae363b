# SPDX-License-Identifier: Apache-2.0
"""Options with a few values: what is not one of them is refused by name, on the command line as in Python."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from pillion.errors import PillionError


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
