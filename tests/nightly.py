# SPDX-License-Identifier: Apache-2.0
"""Sizes the tables of the tests: `make test` runs a part of the long ones, `make test-all` (pytest's `--all`) runs every row.

A test that only `make test-all` runs has the marker `nightly`. The rows of a test with the marker `turns(n)` take turns: `make test`
runs one of n, another one each day."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import Any, TypeVar

T, U = TypeVar("T"), TypeVar("U")
ALL, DAY, TODAY = "PILLION_TESTS_ALL", "PILLION_TESTS_DAY", "PILLION_TESTS_TODAY"
"""Environment variables: whether every row is run; the date that the random seeds depend on (set it to repeat a day); whether the
rows of a day are run alone also where files are named."""


def runs_all() -> bool:
    """Tells whether the long tables are run whole."""
    return bool(os.environ.get(ALL))


def is_only_today() -> bool:
    """Tells whether the rows of a day are run alone also where files are named."""
    return bool(os.environ.get(TODAY))


def part_of(rows: Iterable[T], step: int) -> list[T]:
    """Returns every row for `make test-all`, otherwise the first of each `step`."""
    return list(rows)[:: 1 if runs_all() else step]


def seeds(count: int, today: int = 5) -> list[int]:
    """Returns all seeds below `count` for `make test-all`, otherwise `today` of them, which change by date."""
    if runs_all():
        return list(range(count))
    return sorted(random.Random(os.environ.get(DAY)).sample(range(count), min(today, count)))


def rows_of_today(rows: Sequence[T], turns: int, name: str) -> list[T]:
    """Returns about one row of `turns`, drawn by date: fewer rows than that have days on which none runs."""
    chance = random.Random(f"{os.environ.get(DAY)} {name}")
    count = round(len(rows) / turns) or int(chance.random() < len(rows) / turns)
    return chance.sample(list(rows), count)


def in_turn(rows: Iterable[T], others: Sequence[U]) -> list[tuple[T, U]]:
    """Returns the full product for `make test-all`, otherwise each row with one of the others, which take turns."""
    if runs_all():
        return list(product(rows, others))
    return [(row, others[i % len(others)]) for i, row in enumerate(rows)]


def pairwise(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Returns the full product for `make test-all`, otherwise few of its rows, in which every two values of two axes meet."""
    rows = list(product(*map(range, map(len, axes))))
    if not runs_all():
        rows = _covering(rows)
    return [tuple(axis[i] for axis, i in zip(axes, row, strict=True)) for row in rows]


def _covering(rows: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    pairs = {row: set(combinations(enumerate(row), 2)) for row in rows}
    missing, chosen = set().union(*pairs.values()), []
    while missing:
        best = max(rows, key=lambda row: len(pairs[row] & missing))
        missing -= pairs[best]
        chosen.append(best)
    return chosen
