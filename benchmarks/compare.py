# SPDX-License-Identifier: Apache-2.0
"""Which of the figures got worse since they were recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

WORSE = 1.01
GUARDED = ("instructions", "code_bytes", "constant_bytes", "arena_bytes", "state_bytes", "stack_bytes")
"""Figures that are the same on every computer with the same compiler."""

Figures = dict[str, Any]


def worse(before: Figures, now: Figures) -> list[str]:
    """Recorded figures that grew by more than one percent."""
    found = []
    for part in ("models", "size", "scalar", "micro", "stripes", "streams"):
        old_figures = dict(_leaves(before.get(part, {})))
        for place, value in _leaves(now.get(part, {})):
            old = old_figures.get(place)
            if old is not None and value > old * WORSE:
                found.append(f"{part}: {' '.join(place)} {old:,} → {value:,}")
    return found


def _leaves(figures: Figures, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    """The guarded numbers of a tree of figures."""
    for key, value in figures.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*place, key))
        elif key in GUARDED:
            yield (*place, key), value
