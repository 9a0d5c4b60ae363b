# SPDX-License-Identifier: Apache-2.0
"""The memory budget of a user: a bound on RAM, or a price in instructions."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from pillion.errors import PillionError

_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
_SIZE = re.compile(r"(\d{1,15}) ?([KMG]?)(?:i?B)?", re.IGNORECASE)
_SHARE = re.compile(r"(\d{1,6}(?:\.\d{1,6})?) ?%")


@dataclass(frozen=True)
class MemoryBudget:
    """A bound on RAM, or the instructions that less RAM may cost. With neither, all ops run whole."""

    max_ram: int | None = None
    """The maximum RAM in bytes; the cheapest plan that fits is chosen."""
    extra: float | None = None
    """The share of instructions that may be added; the smallest plan within it is chosen."""
    rows_in: bool | str = False
    """Whether an input is delivered row by row and never lies in the arena as a whole; or the name of that input."""
    is_usual: bool = False
    """Whether this is the default, where savings must be worth the code of stripes."""

    def least_saving(self, arena_bytes: int) -> int:
        """Returns the bytes that stripes have to save in an arena of the given size."""
        return max(WORTH_BYTES, int(WORTH_SHARE * arena_bytes)) if self.is_usual else 0

    @property
    def is_asked(self) -> bool:
        """Whether the user asked for less memory."""
        return self not in (WITHOUT_TILING, DEFAULT_BUDGET)


WITHOUT_TILING = MemoryBudget()
"""No budget: all ops run whole."""
DEFAULT_BUDGET = MemoryBudget(extra=0.01, is_usual=True)
"""The default: stripes if they cost next to nothing and save much."""
WORTH_BYTES = 4096
"""The least RAM that default stripes must save: their code takes one to three thousand bytes of flash."""
WORTH_SHARE = 0.1
"""The least share of the arena that they must save."""


def parse_memory_budget(
    max_ram: int | str | None = None, extra: float | str | None = None, rows_in: bool | str = False
) -> MemoryBudget:
    """Parses `256K` bytes and `5%` instructions, or takes numbers; returns the default if nothing is given."""
    if max_ram is None and extra is None and not rows_in:
        return DEFAULT_BUDGET
    if max_ram is not None and extra is not None:
        raise PillionError(
            "two wishes for the memory",
            rule="--max-ram finds the least extra work for some memory, --extra the least memory for some extra work",
            here=f"--max-ram {max_ram} --extra {extra}",
            help="give one of them",
        )
    return MemoryBudget(
        None if max_ram is None else _bytes(max_ram), None if extra is None else _share(extra), rows_in
    )


def _bytes(given: int | str) -> int:
    match = _SIZE.fullmatch(str(given).strip())
    size = int(match[1]) * _UNITS[match[2].upper()] if match else 0
    if not 0 < size < 2**32:
        raise PillionError(
            f"{given} is no size of memory",
            rule="a number of bytes above 0 and below 4G, with K for 1,024 and M for 1,048,576",
            here=f"--max-ram {given}",
            help="--max-ram 256K",
        )
    return size


def _share(given: float | str) -> float:
    match = _SHARE.fullmatch(given.strip()) if isinstance(given, str) else None
    share = float(match[1]) / 100 if match else given if isinstance(given, (int, float)) else math.nan
    if not 0 <= share <= 1:
        raise PillionError(
            f"{given} is no share of the instructions",
            rule="from 0% to 100%; in Python also a number from 0 to 1",
            here=f"--extra {given}",
            help="--extra 5%",
        )
    return float(share)
