# SPDX-License-Identifier: Apache-2.0
"""Fixtures for all tests: recorded texts, and tools that may be missing."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

gc.set_threshold(200_000)  # importing torch makes many objects that stay
for of_outer_make in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
    os.environ.pop(of_outer_make, None)  # `make test` must not speak into the makes that tests run
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts the suite in the background has it ignore Ctrl-C; the commands that tests interrupt would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("PILLION_CACHE", str(TESTS.parent / "build" / "cache"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="record the texts that tests compare with")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `qemu` are skipped, by name of what is missing, where they cannot run."""
    missing = [tool for tool in ("arm-none-eabi-gcc", "qemu-system-arm") if shutil.which(tool) is None]
    if missing:
        skip = pytest.mark.skip(reason=f"not installed: {', '.join(missing)} (make tools)")
        for item in items:
            if "qemu" in item.keywords:
                item.add_marker(skip)


class Golden:
    """Compares a text with the one recorded under a name."""

    def __init__(self, update: bool) -> None:
        self.update = update

    def check(self, name: str, text: str) -> None:
        path = TESTS / name
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        assert path.exists(), f"{name} is not recorded: make golden"
        assert text == path.read_text("utf-8"), f"{name} differs: look at the change, then make golden"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(request.config.getoption("--update-golden"))
