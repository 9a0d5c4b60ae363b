# SPDX-License-Identifier: Apache-2.0
"""Byte liveness: which bytes of a buffer are live at each tick. Rows that are not computed yet, or not needed any
more, are free for other buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.int64]
NOWHERE = 1 << 40
"""The first live byte of an empty buffer; its negative is the last one."""


@dataclass(frozen=True, eq=False)
class LiveExtent:
    """The first live byte of a buffer at each tick, and the byte behind the last one."""

    low: Bytes
    high: Bytes

    @property
    def used(self) -> Bytes:
        """The number of live bytes at each tick."""
        return np.maximum(self.high - self.low, 0)

    @property
    def first(self) -> int:
        """The first tick with live bytes."""
        return int(np.argmax(self.high > self.low))

    @property
    def last(self) -> int:
        """The last tick with live bytes."""
        return len(self.low) - 1 - int(np.argmax((self.high > self.low)[::-1]))

    def window(self, first: int, last: int) -> LiveExtent:
        """Returns the ticks from `first` to `last`."""
        return LiveExtent(self.low[first : last + 1], self.high[first : last + 1])


Change = tuple[int, int, int]
"""From a tick on, the bytes from the first number to before the second are live."""


def extent_from_changes(changes: Sequence[Change], ticks: int) -> LiveExtent:
    """Returns the extent that follows from a list of changes."""
    begins = np.array([tick for tick, *_ in changes] + [ticks], np.int64)
    counts = np.diff(begins)
    low = np.array([low if low < high else NOWHERE for _, low, high in changes], np.int64)
    high = np.array([high if low < high else -NOWHERE for _, low, high in changes], np.int64)
    empty = np.full(int(begins[0]), NOWHERE, np.int64)
    return LiveExtent(
        np.concatenate([empty, np.repeat(low, counts)]), np.concatenate([-empty, np.repeat(high, counts)])
    )


def extent_at_ticks(sizes: Mapping[int, int], count: int) -> LiveExtent:
    """Returns the extent of a buffer with these numbers of live bytes at these ticks."""
    low = np.full(count, NOWHERE, np.int64)
    high = -low
    for tick, size in sizes.items():
        low[tick], high[tick] = (0, size) if size else (NOWHERE, -NOWHERE)
    return LiveExtent(low, high)


def extent_of_unread_bytes(reads: Sequence[tuple[int, int]], size: int, ticks: int) -> LiveExtent:
    """Returns the extent of a buffer that is consumed: from each tick on, only the bytes behind a position are
    still read."""
    low = np.full(ticks, size, np.int64)
    for tick, start in reads:
        low[tick] = min(int(low[tick]), start)
    low = np.minimum.accumulate(low[::-1])[::-1]
    return LiveExtent(np.where(low < size, low, NOWHERE), np.where(low < size, size, -NOWHERE))


def extent_of_written_bytes(writes: Sequence[tuple[int, int]], ticks: int) -> LiveExtent:
    """Returns the extent of a buffer that is produced: at each tick, the bytes before a position are written."""
    high = np.zeros(ticks, np.int64)
    for tick, end in writes:
        high[tick] = max(int(high[tick]), end)
    high = np.maximum.accumulate(high)
    return LiveExtent(np.where(high > 0, 0, NOWHERE), np.where(high > 0, high, -NOWHERE))


def least_distance(size: int, one: LiveExtent | None, other: LiveExtent | None) -> int | None:
    """Returns the least distance from the beginning of one buffer to a later one at which their live bytes never
    overlap; None if they are never live at the same tick. A buffer without an extent is live as a whole."""
    if one is None and other is None:
        return size
    high = one.high if one is not None else np.int64(size)
    low = other.low if other is not None else np.int64(0)
    apart = int(np.max(high - low))
    return apart if apart > -NOWHERE // 2 else None
