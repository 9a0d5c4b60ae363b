# SPDX-License-Identifier: Apache-2.0
"""Rows of slow tests take turns by date: each day some, over the days all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import nightly

DAYS = [f"2026-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 29)]


def drawn(monkeypatch: pytest.MonkeyPatch, day: str, rows: int, turns: int) -> list[int]:
    monkeypatch.setenv(nightly.DAY, day)
    return nightly.rows_of_today(range(rows), turns, "test_slow.py::test_one")


@pytest.mark.parametrize(("rows", "turns"), [(50, 5), (7, 3), (3, 3)])
def test_a_table_has_its_share_each_day(monkeypatch: pytest.MonkeyPatch, rows: int, turns: int) -> None:
    for day in DAYS[:20]:
        today = drawn(monkeypatch, day, rows, turns)
        assert len(today) == len(set(today)) == round(rows / turns)
        assert today == drawn(monkeypatch, day, rows, turns), "a day is repeated"


@pytest.mark.parametrize(("rows", "turns"), [(50, 5), (2, 7), (1, 20)])
def test_over_the_days_every_row_runs(monkeypatch: pytest.MonkeyPatch, rows: int, turns: int) -> None:
    days = [drawn(monkeypatch, day, rows, turns) for day in DAYS]
    assert {row for today in days for row in today} == set(range(rows))
    share = sum(map(len, days)) / len(days)
    assert 0.5 * rows / turns < share < 2 * rows / turns


def test_a_run_of_a_day_leaves_rows_out_and_a_named_file_has_all() -> None:
    """Counts what this suite itself collects: the marker has an effect, and a named file none left out."""
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-m", "pytest", "--co", "-q", "-p", "no:cacheprovider"]
    file = str(tests / "cli" / "test_error_messages.py")
    environment = {**os.environ, nightly.DAY: "1"}
    environment.pop(nightly.ALL, None)

    def collected(**more: str) -> int:
        done = subprocess.run(
            [*command, file],
            env=environment | more,
            cwd=tests.parent,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.count("test_a_mistake_is_answered_in_four_parts[")

    whole, today = collected(), collected(**{nightly.TODAY: "1"})
    assert 0 < today <= whole // 4
