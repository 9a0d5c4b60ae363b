# SPDX-License-Identifier: Apache-2.0
"""What a user wants of the memory: a bound, or a price."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from pillion.errors import PillionError

_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
_SIZE = re.compile(r"(\d{1,15}) ?([KMG]?)(?:i?B)?", re.IGNORECASE)
_SHARE = re.compile(r"(\d{1,6}(?:\.\d{1,6})?) ?%")


@dataclass(frozen=True)
class MemoryWish:
    """The memory that a program may take, or what less memory may cost. With neither, all ops run whole."""

    max_ram: int | None = None
    """Bytes that the program may hold in RAM; the cheapest plan that fits is taken."""
    extra: float | None = None
    """The share of instructions that may be added; the smallest plan that costs no more is taken."""
    rows_in: bool | str = False
    """Whether an input is handed over row by row, and never lies in the arena as a whole; or its name, of several."""
    is_usual: bool = False
    """Whether nobody asked: then what stripes save has to be worth their code."""

    def least_saving(self, arena_bytes: int) -> int:
        """Gives the bytes of an arena of some size that stripes have to save."""
        return max(WORTH_BYTES, int(WORTH_SHARE * arena_bytes)) if self.is_usual else 0

    @property
    def is_asked(self) -> bool:
        """Whether somebody asked for less memory."""
        return self not in (WHOLE, USUAL)


WHOLE = MemoryWish()
"""No wish for the memory: all ops run whole."""
USUAL = MemoryWish(extra=0.01, is_usual=True)
"""What is done where nobody says anything: stripes where they cost next to nothing and save much."""
WORTH_BYTES = 4096
"""The RAM that stripes save at least where nobody asked for them: their code takes one to three thousand bytes of flash."""
WORTH_SHARE = 0.1
"""The share of the arena that they save at least."""


def memory_wish(
    max_ram: int | str | None = None, extra: float | str | None = None, rows_in: bool | str = False
) -> MemoryWish:
    """Gives the wish behind `256K` bytes or `5%` more instructions, as they are typed, or as numbers; the usual one where nothing is said."""
    if max_ram is None and extra is None and not rows_in:
        return USUAL
    if max_ram is not None and extra is not None:
        raise PillionError(
            "two wishes for the memory",
            rule="--max-ram finds the least extra work for some memory, --extra the least memory for some extra work",
            here=f"--max-ram {max_ram} --extra {extra}",
            help="give one of them",
        )
    return MemoryWish(
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
