# SPDX-License-Identifier: Apache-2.0
"""Valid files made invalid, for readers that must not trust them."""

from __future__ import annotations

import random

WORDS = (0, 1, 2, 255, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
"""At which sizes and offsets go wrong."""


def damaged(rng: random.Random, whole: bytes, tables: int | None = None) -> bytes:
    """The file with a few bytes or words replaced, a piece left out, or the end cut off. With `tables`, most changes are made
    in so many bytes at the front."""
    raw = bytearray(whole)
    if rng.random() < 0.1:
        return bytes(raw[: rng.randrange(len(raw))])
    for _ in range(rng.choice((1, 1, 2, 3, 8, 30))):
        front = tables is not None and rng.random() < 0.8
        at = rng.randrange(min(tables or len(raw), len(raw)) if front else len(raw))
        kind = rng.random()
        if kind < 0.5:
            raw[at] = rng.randrange(256)
        elif kind < 0.9:
            word = rng.choice((*WORDS, len(raw), rng.randrange(2**32)))
            raw[at & ~3 : (at & ~3) + 4] = word.to_bytes(4, "little")
        else:
            del raw[at : at + rng.randrange(1, 9)]
    return bytes(raw)
