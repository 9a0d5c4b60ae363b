# SPDX-License-Identifier: Apache-2.0
"""Plants faults in a copy of the project and asks the tests. A fault is judged in a child process that has PyTorch already."""

from __future__ import annotations

import ast
import compileall
import contextlib
import json
import os
import py_compile
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import marks
from faults import Fault
from nearest import Chosen, Recorder, tests_of
from parts import KERNELS, PYTHON_PARTS, Part, kernel_order

NEEDED = ("src", "tests", "kernels", "tools", "docs", "examples", "benchmarks", "README.md", "CHANGELOG.md", "Makefile",
          "CONTRIBUTING.md", "LICENSE", "pyproject.toml")  # fmt: skip
BUDGET = 15.0
"""Seconds of tests that are asked beyond the nearest ones, as measured without a fault."""
MOST_NEAR = 60.0
"""Seconds of nearest tests that are asked."""
BUDGET_OF_KERNELS = 100.0
"""It is not known which tests call which kernel."""
OPTIONS = (
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:randomly",
    "--hypothesis-seed=0",
    "--no-header",
    "-W",
    "ignore",
    "--tb=no",
)


@dataclass(frozen=True)
class Judgement:
    """What the tests said of a fault."""

    outcome: str
    """`killed`, `survived`, `timeout` (which kills too) or `stillborn`: it does not compile, so nobody could commit it."""
    test: str | None
    tests: int
    seconds: float


def copy_of(root: Path, tree: Path) -> Path:
    """A copy of the project in which faults may be planted. Its bytecode is compared with the text, not with its age."""
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    ignore = shutil.ignore_patterns("__pycache__", ".hypothesis")
    for name in NEEDED:
        if (root / name).is_dir():
            shutil.copytree(root / name, tree / name, ignore=ignore)
        elif (root / name).exists():
            shutil.copy(root / name, tree / name)
    compileall.compile_dir(
        tree / "src", quiet=2, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH
    )
    return tree


def warm_up() -> None:
    """Imports what is slow to import and is never changed."""
    import typer  # noqa: F401


def _pytest(tree: Path, arguments: list[str], plugin: object) -> int:
    """Runs tests in this process, of which nothing is used afterwards."""
    import pytest

    os.chdir(tree)
    os.environ.update(
        PYTHONPATH=str(tree / "src"), PILLION_CACHE=str(tree.parents[2] / "cache"), OMP_NUM_THREADS="1"
    )
    sys.path[:] = [str(tree / "src"), *(p for p in sys.path if not p.endswith(("/src", "/tools/mutants")))]
    return int(pytest.main([*OPTIONS, *arguments], plugins=[plugin]))


def in_child(work: Callable[[], Any], limit: float, log: Path) -> tuple[bool, Any]:
    """Does work in a forked process group; whether it ended in time, and what it returned."""
    answer = log.with_suffix(".answer")
    answer.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        try:
            answer.write_text(json.dumps(work()), "utf-8")
        finally:
            sys.stdout.flush()
            os._exit(0)
    end = time.monotonic() + limit
    done = 0
    while done == 0 and time.monotonic() < end:
        done, _ = os.waitpid(pid, os.WNOHANG)
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if done == 0:
        os.waitpid(pid, 0)
    return done != 0, json.loads(answer.read_text("utf-8")) if answer.exists() else None


def map_tests(tree: Path, folder: str, to: Path) -> None:
    """Writes down the tests of a folder with what they call and how long they take, where that is not known."""
    if to.exists():
        return

    def work() -> int:
        recorder = Recorder(marks.install(tree / "src" / "pillion", PYTHON_PARTS))
        code = _pytest(tree, [f"tests/{folder}"], recorder)
        recorder.save(to)
        return code

    in_child(work, 3600, to.with_suffix(".log"))


def known_tests(part: Part, maps: Path) -> dict[str, Any]:
    """What is known of all tests of a part."""
    known: dict[str, Any] = {"tests": {}, "files": {}}
    for folder in part.tests:
        found = json.loads((maps / f"tests-{folder}.json").read_text("utf-8"))
        for kind, rows in found.items():
            known[kind].update(rows)
    return known


def judge(fault: Fault, part: Part, tree: Path, known: dict[str, Any]) -> Judgement:
    """Plants the fault, asks the nearest tests and then the others, and restores the file."""
    path, start = tree / fault.path, time.monotonic()
    text = path.read_text("utf-8")
    planted = fault.planted(text)
    try:
        path.write_text(planted, "utf-8")
        if not _compiles(path, tree):
            return Judgement("stillborn", None, 0, 0)
        names = _chosen(fault, part, text, known)
        return _asked(names, part, tree, known, start)
    finally:
        path.write_text(text, "utf-8")


def _asked(names: list[str], part: Part, tree: Path, known: dict[str, Any], start: float) -> Judgement:
    expected = sum(known["tests"][n][0] for n in names)

    def work() -> str | None:
        chosen = Chosen(names)
        files = list(dict.fromkeys(n.split("::")[0] for n in names))
        import pytest

        code = _pytest(tree, ["-x", *files], chosen)
        return chosen.failed or (
            f"exit code {code}" if code not in (0, pytest.ExitCode.NO_TESTS_COLLECTED) else None
        )

    in_time, failed = in_child(work, 30 + 5 * expected, tree.with_suffix(".log"))
    outcome = "timeout" if not in_time else "killed" if failed else "survived"
    if in_time and failed is None and not tree.with_suffix(".answer").exists():
        outcome, failed = "killed", "the process ended"
    return Judgement(outcome, failed, len(names), round(time.monotonic() - start, 1))


def _chosen(fault: Fault, part: Part, text: str, known: dict[str, Any]) -> list[str]:
    """The nearest tests, then others of the part while the budget lasts."""
    tests = known["tests"]
    quick = sorted(tests, key=lambda n: tests[n][0])
    if part.name == KERNELS:
        quick.sort(key=lambda n: (*kernel_order(fault.path, n), tests[n][0]))
        nearest: list[str] = []
    else:
        path = str(Path(fault.path).relative_to("src/pillion"))
        nearest = tests_of(known, path, _functions_around(text, fault.edit.line))
    seen = set(nearest)
    others = [n for n in quick if n not in seen]
    budget = BUDGET_OF_KERNELS if part.name == KERNELS else BUDGET
    return [*_within(MOST_NEAR, nearest, tests), *_within(budget, others, tests)]


def _within(budget: float, names: list[str], tests: dict[str, Any]) -> Iterator[str]:
    """The first tests, as long as their seconds together stay within a budget."""
    for name in names:
        budget -= tests[name][0]
        if budget < 0:
            return
        yield name


def _functions_around(text: str, line: int) -> list[int]:
    """The line where the innermost function around a line begins, with its decorators."""
    around = [
        n for n in ast.walk(ast.parse(text))
        if isinstance(n, ast.FunctionDef) and n.lineno <= line <= (n.end_lineno or 0)
    ]  # fmt: skip
    inner = max(around, key=lambda n: n.lineno, default=None)
    return [] if inner is None else [min([inner.lineno, *(d.lineno for d in inner.decorator_list)])]


def _compiles(path: Path, tree: Path) -> bool:
    if path.suffix == ".py":
        try:
            compile(path.read_text("utf-8"), str(path), "exec")
        except SyntaxError:
            return False
        return True
    core = ("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard")
    command = [
        "arm-none-eabi-gcc",
        *core,
        "-std=c99",
        "-fsyntax-only",
        "-x",
        "c",
        "-Ikernels/include",
        "-I",
        str(path.parent),
        "-",
    ]
    done = subprocess.run(command, cwd=tree, input=f'#include "{path}"\n', capture_output=True, text=True)
    return done.returncode == 0
