# SPDX-License-Identifier: Apache-2.0
"""`make test-near` finds the tests of a change, and the long tables are shortened soundly."""

from __future__ import annotations

import importlib.util
import sys
from itertools import combinations, product
from pathlib import Path
from types import ModuleType

import pytest

import nightly

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "path", [*sys.path])
    spec = importlib.util.spec_from_file_location("test_near_tool", ROOT / "tools" / "test_near.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_folder_of_the_package_has_tests(tool: ModuleType) -> None:
    folders = [path for path in (ROOT / "src" / "pillion").iterdir() if (path / "__init__.py").exists()]
    for folder in folders:
        found = tool.near([f"src/pillion/{folder.name}/x.py"])
        assert set(found) - {*tool.LINTS, "cli", "test_program.py"} or folder.name == "cli", folder.name


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("src/pillion/importers/torch/rows/conv.py", {"importers/pytorch", "capture"}),
        ("kernels/dsp/conv.c", {"kernels", "emitters"}),
        ("tests/ops/test_identities.py", {"ops/test_identities.py"}),
        ("tests/kernels/rig.py", {"kernels"}),
        ("tests/call_counts.py", {"."}),
        ("README.md", {"test_docs.py", "test_tutorials.py"}),
        ("src/pillion/compiler.py", {"cli", "test_program.py"}),
        ("benchmarks/bench.py", set()),
    ],
)
def test_tests_near_a_file(tool: ModuleType, path: str, tests: set[str]) -> None:
    assert set(tool.near([path])) - set(tool.LINTS) == tests


def test_every_two_values_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(nightly.ALL, raising=False)
    axes = ("abc", (1, 2, 3, 4), (True, False), "xy")
    rows = nightly.pairwise(*axes)
    assert len(rows) < 20
    for i, j in combinations(range(4), 2):
        assert {(row[i], row[j]) for row in rows} == set(product(axes[i], axes[j]))
    monkeypatch.setenv(nightly.ALL, "1")
    assert nightly.pairwise(*axes) == list(product(*axes))


def test_seeds_change_by_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(nightly.ALL, raising=False)
    days = set()
    for day in range(8):
        monkeypatch.setenv(nightly.DAY, str(day))
        days.add(tuple(nightly.seeds(40)))
        assert nightly.seeds(40) == nightly.seeds(40)
    assert len(days) > 4
    assert all(len(set(day)) == 5 and set(day) <= set(range(40)) for day in days)
    monkeypatch.setenv(nightly.ALL, "1")
    assert nightly.seeds(40) == list(range(40))
    assert nightly.part_of(range(9), 4) == list(range(9))


def test_others_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(nightly.ALL, raising=False)
    assert nightly.in_turn("abc", (1, 2)) == [("a", 1), ("b", 2), ("c", 1)]
    monkeypatch.setenv(nightly.ALL, "1")
    assert nightly.in_turn("abc", (1, 2)) == list(product("abc", (1, 2)))
