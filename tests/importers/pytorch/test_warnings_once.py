# SPDX-License-Identifier: Apache-2.0
"""A warning is given once for each line of the user and each text, in Python as on the command line, unless filters want more."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable

import pytest

from pillion import errors
from pillion.cli import console
from pillion.errors import PillionWarning, warn

pytestmark = pytest.mark.torch

THREE_TIMES = """
import torch
import pillion
for _ in range(3):
    pillion.compile(torch.nn.Linear(3, 2), (torch.zeros(1, 3),), target="cortex-m33")
pillion.compile(torch.nn.Linear(3, 2), (torch.zeros(1, 3),), target="cortex-m33")
"""


@pytest.mark.turns(5)
def test_a_loop_is_warned_once_at_its_own_line() -> None:
    done = subprocess.run([sys.executable, "-c", THREE_TIMES], capture_output=True, text=True, check=True)
    given = [line for line in done.stderr.splitlines() if "PillionWarning" in line]
    assert [line.split(" ")[0] for line in given] == ["<string>:5:", "<string>:6:"]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(errors, "_given", set())
    monkeypatch.setattr(errors, "PACKAGE", "/nowhere/")
    seen: list[str] = []
    monkeypatch.setattr(warnings, "showwarning", lambda message, *more: seen.append(str(message)))
    return seen


def here(text: str) -> None:
    warn(text)


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        (lambda: warnings.simplefilter("default"), 1),
        (lambda: warnings.simplefilter("once"), 1),
        (lambda: warnings.simplefilter("always"), 3),
        (lambda: warnings.simplefilter("ignore"), 0),
        (lambda: warnings.filterwarnings("always", "calib", PillionWarning), 3),
    ],
)
def test_filters_are_obeyed(filters: Callable[[], None], count: int, given: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.resetwarnings()
        filters()
        for _ in range(3):
            here("calibration saw nothing")
            with warnings.catch_warnings():  # as torch does, which makes Python forget
                warnings.simplefilter("ignore", DeprecationWarning)
        assert given == ["calibration saw nothing"] * count


def test_another_text_is_another_warning(given: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("default")
        for text in ("one", "two", "one"):
            here(text)
    assert given == ["one", "two"]


def test_warnings_can_be_errors(given: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(PillionWarning, match="one"):
                here("one")


def test_a_command_says_it_once(capsys: pytest.CaptureFixture[str]) -> None:
    console.warned.clear()
    for text in ("few samples", "no room", "few samples"):
        console.warn(text)
    assert capsys.readouterr().err == "warning: few samples\nwarning: no room\n"
