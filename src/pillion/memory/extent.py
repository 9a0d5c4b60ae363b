# SPDX-License-Identifier: Apache-2.0
"""Which bytes of a buffer are in use at each moment: rows that are made, and not yet read by all. What is not there yet and what nobody
needs any more is room for others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.int64]
NOWHERE = 1 << 40
"""Where the first used byte is if there is none; the last one is as far below."""


@dataclass(frozen=True, eq=False)
class Extent:
    """The first byte of a buffer that is in use at each tick, and the one behind the last."""

    low: Bytes
    high: Bytes

    @property
    def used(self) -> Bytes:
        """The bytes that are in use at each tick."""
        return np.maximum(self.high - self.low, 0)

    @property
    def first(self) -> int:
        """The first tick at which something is in use."""
        return int(np.argmax(self.high > self.low))

    @property
    def last(self) -> int:
        """The last tick at which something is in use."""
        return len(self.low) - 1 - int(np.argmax((self.high > self.low)[::-1]))

    def window(self, first: int, last: int) -> Extent:
        """Gives the ticks from `first` to `last`."""
        return Extent(self.low[first : last + 1], self.high[first : last + 1])


Change = tuple[int, int, int]
"""From a tick on, the bytes from the first number to before the second are in use."""


def of_changes(changes: Sequence[Change], ticks: int) -> Extent:
    """Gives the extent of a buffer of which it is known when the bytes in use become others."""
    begins = np.array([tick for tick, *_ in changes] + [ticks], np.int64)
    counts = np.diff(begins)
    low = np.array([low if low < high else NOWHERE for _, low, high in changes], np.int64)
    high = np.array([high if low < high else -NOWHERE for _, low, high in changes], np.int64)
    empty = np.full(int(begins[0]), NOWHERE, np.int64)
    return Extent(
        np.concatenate([empty, np.repeat(low, counts)]), np.concatenate([-empty, np.repeat(high, counts)])
    )


def while_at(sizes: Mapping[int, int], count: int) -> Extent:
    """Gives the extent of bytes of which some are in use at some of `count` ticks, as many as is said of each."""
    low = np.full(count, NOWHERE, np.int64)
    high = -low
    for tick, size in sizes.items():
        low[tick], high[tick] = (0, size) if size else (NOWHERE, -NOWHERE)
    return Extent(low, high)


def read_later(reads: Sequence[tuple[int, int]], size: int, ticks: int) -> Extent:
    """Gives the extent of a whole buffer of which at some ticks is read from some byte on, and which is used up then."""
    low = np.full(ticks, size, np.int64)
    for tick, start in reads:
        low[tick] = min(int(low[tick]), start)
    low = np.minimum.accumulate(low[::-1])[::-1]
    return Extent(np.where(low < size, low, NOWHERE), np.where(low < size, size, -NOWHERE))


def made_so_far(writes: Sequence[tuple[int, int]], ticks: int) -> Extent:
    """Gives the extent of a whole buffer that is written up to some byte at some ticks, and all of which is read later."""
    high = np.zeros(ticks, np.int64)
    for tick, end in writes:
        high[tick] = max(int(high[tick]), end)
    high = np.maximum.accumulate(high)
    return Extent(np.where(high > 0, 0, NOWHERE), np.where(high > 0, high, -NOWHERE))


def reach(size: int, one: Extent | None, other: Extent | None) -> int | None:
    """Gives how far behind the beginning of a buffer of some size another one has to begin, if it is to lie behind it: what the first
    has in use is never where the other has something. Both are seen at the same ticks; None if they are never in use at once. A buffer
    without an extent is in use as a whole all the time."""
    if one is None and other is None:
        return size
    high = one.high if one is not None else np.int64(size)
    low = other.low if other is not None else np.int64(0)
    apart = int(np.max(high - low))
    return apart if apart > -NOWHERE // 2 else None
