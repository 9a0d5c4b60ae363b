# SPDX-License-Identifier: Apache-2.0
"""The table of requirements is complete, and the tests that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "requirements.md").read_text("utf-8")


def test_every_requirement_has_one_row() -> None:
    assert re.findall(r"^\| (R\d+) \|", TEXT, re.MULTILINE) == [f"R{number}" for number in range(1, 41)]


def test_every_row_names_a_test_or_says_that_there_is_none() -> None:
    for row in re.findall(r"^\| R\d+ .*", TEXT, re.MULTILINE):
        assert "::test_" in row or "not covered" in row, row


def test_named_tests_exist() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)
    assert len(named) >= 20
    for file, name in named:
        assert f"def {name}(" in (ROOT / file).read_text("utf-8"), f"{file} has no {name}"
