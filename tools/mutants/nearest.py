# SPDX-License-Identifier: Apache-2.0
"""Which tests call which functions: a plug-in of pytest that writes it down, and one that runs only chosen tests, in a chosen order."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest


class Recorder:
    """Writes down the functions that each test calls, and how long it takes. What is called while a file of tests is
    imported or set up counts for all tests of the file."""

    def __init__(self, called: set[str]) -> None:
        self.called = called
        self.of_test: dict[str, set[str]] = {}
        self.of_file: dict[str, set[str]] = {}
        self.seconds: dict[str, float] = {}
        self.passed: dict[str, bool] = {}

    def _taken(self) -> set[str]:
        """What has been called since this was asked before."""
        taken = set(self.called)
        self.called.clear()
        return taken

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        self._taken()
        try:
            return (yield)
        finally:
            self.of_file.setdefault(collector.nodeid.split("::")[0], set()).update(self._taken())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._taken()
        try:
            return (yield)
        finally:
            self.of_file.setdefault(item.nodeid.split("::")[0], set()).update(self._taken())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._taken()
        try:
            return (yield)
        finally:
            self.of_test.setdefault(item.nodeid, set()).update(self._taken())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid
        self.seconds[name] = self.seconds.get(name, 0) + report.duration
        self.passed[name] = self.passed.get(name, True) and report.outcome == "passed"

    def save(self, path: Path) -> None:
        """Only tests that pass are worth asking again."""
        names = [name for name, passed in self.passed.items() if passed]
        found = {
            "tests": {n: [self.seconds[n], sorted(self.of_test.get(n, ()))] for n in names},
            "files": {n: sorted(called) for n, called in self.of_file.items()},
        }
        path.write_text(json.dumps(found), "utf-8")


class Chosen:
    """Runs these tests in this order."""

    def __init__(self, names: list[str]) -> None:
        self.order = {name: place for place, name in enumerate(names)}
        self.failed: str | None = None

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self.order), key=lambda i: self.order[i.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and self.failed is None:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and self.failed is None:
            self.failed = report.nodeid


def tests_of(known: dict[str, Any], path: str, functions: list[int]) -> list[str]:
    """The tests that call a function of a file, given by the lines where those around the fault begin: quick ones first.
    Where there is none around it, all that use the file."""
    here = {f"{path}:{line}" for line in functions}

    def calls(found: list[str]) -> bool:
        return bool(here & set(found)) if here else any(f.startswith(f"{path}:") for f in found)

    files = {name for name, found in known["files"].items() if calls(found)}
    tests = known["tests"]
    chosen = [n for n, (_, found) in tests.items() if n.split("::")[0] in files or calls(found)]
    return sorted(chosen, key=lambda n: tests[n][0])
