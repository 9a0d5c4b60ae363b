# SPDX-License-Identifier: Apache-2.0
"""Counts what Pillion's own code does, so that tests of growth need no clock: they give one answer on busy machines too."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pillion

OURS = str(Path(pillion.__file__).parent)
SLACK = 1.25
"""What may come on top of growth in proportion: tables that are made once, logarithms."""


def work(action: Callable[[], object]) -> int:
    """The calls that Pillion's code makes and takes, those of methods of dicts, sets and tensors among them."""
    count = 0
    ours: dict[str, bool] = {}

    def seen(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        file = frame.f_code.co_filename
        if event in ("call", "c_call") and ours.setdefault(file, file.startswith(OURS)):
            count += 1

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count


def assert_grows(action_of: Callable[[int], Callable[[], object]], size: int, factor: float = 2.0) -> None:
    """Twice the size is `factor` times the work. The first run is not counted: it fills what is made once."""
    action_of(size)()
    once, twice = work(action_of(size)), work(action_of(2 * size))
    assert twice <= factor * SLACK * once, f"{once:,} calls at {size}, {twice:,} at {2 * size}"
