# SPDX-License-Identifier: Apache-2.0
"""Fixtures for all tests: recorded texts, tools that may be missing, and which tests wait for `make test-all`."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from datetime import date
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import nightly

TESTS = Path(__file__).parent

settings.register_profile("suite", suppress_health_check=[HealthCheck.too_slow])  # of a busy machine
settings.load_profile("suite")
gc.set_threshold(200_000)  # importing torch makes many objects that stay
for of_outer_make in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
    os.environ.pop(of_outer_make, None)  # `make test` must not speak into the makes that tests run
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts the suite in the background has it ignore Ctrl-C; the commands that tests interrupt would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("PILLION_CACHE", str(TESTS.parent / "build" / "cache"))
os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # the suite has a worker for each core; their threads would wait for one another
os.environ.setdefault(
    nightly.DAY, date.today().isoformat()
)  # before workers start: all collect the tests of one day


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="record the texts that tests compare with")
    parser.addoption("--all", action="store_true", help="run nightly tests too, and every row of long tables")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--all"):
        os.environ[nightly.ALL] = "1"


def pytest_report_header() -> str:
    return (
        "every row of every table"
        if nightly.runs_all()
        else f"seeds of {nightly.DAY}={os.environ[nightly.DAY]}"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out tests marked `nightly`, and those whose turn it is not, unless `--all` is given or their files are named; skips tests marked
    `qemu` where tools are missing, and says which."""
    names_files = any(".py" in name for name in config.args) and not nightly.is_only_today()
    waiting = set() if nightly.runs_all() or names_files else waiting_tests(items)
    if waiting:
        config.hook.pytest_deselected(items=[item for item in items if item in waiting])
        items[:] = [item for item in items if item not in waiting]
    missing = [tool for tool in ("arm-none-eabi-gcc", "qemu-system-arm") if shutil.which(tool) is None]
    if missing:
        skip = pytest.mark.skip(reason=f"not installed: {', '.join(missing)} (make tools)")
        for item in items:
            if "qemu" in item.keywords:
                item.add_marker(skip)


def waiting_tests(items: list[pytest.Item]) -> set[pytest.Item]:
    """Returns the tests that do not run today."""
    tables: dict[str, list[pytest.Item]] = {}
    for item in items:
        if "turns" in item.keywords:
            tables.setdefault(item.nodeid.partition("[")[0], []).append(item)
    waiting = {item for item in items if "nightly" in item.keywords}
    for name, rows in tables.items():
        marker = rows[0].get_closest_marker("turns")
        assert marker is not None
        waiting |= set(rows) - set(nightly.rows_of_today(rows, *marker.args, name))
    return waiting


@pytest.fixture
def any_sound_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of ops side by side need no small plan of their memory, which is what takes long to find."""
    from pillion.memory import first_fit

    monkeypatch.setattr(first_fit, "SHUFFLES", 0)


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
