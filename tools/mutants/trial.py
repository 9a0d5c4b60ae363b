# SPDX-License-Identifier: Apache-2.0
"""Plants faults in a copy of the project and asks the tests. A fault is judged in a child process that has PyTorch already.

No module here is called as a package of the tests is (`judge`, `kernels`): the child has both."""

from __future__ import annotations

import ast
import compileall
import contextlib
import gc
import hashlib
import importlib
import json
import os
import py_compile
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
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
MOST_TELLING, FIRST = 60, 5.0
"""How many tests say which files are the nearest, and for how many seconds those are asked alone."""
MOST_WAITING = 12
"""Seconds that may pass for one second of the processor."""
BUDGET_OF_KERNELS = 100.0
"""It is not known which tests call which kernel."""
OPTIONS = (
    "-p",
    "no:unraisableexception",
    "-p",
    "no:threadexception",
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
    """`killed`, `survived`, `timeout` (which kills too) or `stillborn`: it does not compile, or is what was there."""
    test: str | None
    tests: int
    seconds: float


def copy_of(root: Path, tree: Path, compiles: bool = True) -> Path:
    """A copy of the project in which faults may be planted. Its bytecode is compared with the text, not with its age; a copy of
    a copy has it already."""
    tree.mkdir(parents=True)
    ignore = shutil.ignore_patterns(".hypothesis", *(["__pycache__"] if compiles else []))
    for name in NEEDED:
        if (root / name).is_dir():
            shutil.copytree(root / name, tree / name, ignore=ignore)
        elif (root / name).exists():
            shutil.copy(root / name, tree / name)
    if compiles:
        mode = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(tree / "src", quiet=2, invalidation_mode=mode)
    return tree


SLOW_TO_IMPORT = (
    "ai_edge_litert.interpreter",
    "executorch.exir._serialize._program",
    "hypothesis",
    "torchao.quantization.pt2e",
    "typer",
)


def warm_up() -> None:
    """Imports what is slow to import and is never changed, so that forks have it."""
    import torch

    for name in SLOW_TO_IMPORT:
        importlib.import_module(name)
    torch.set_num_threads(1)
    torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))  # which imports half of PyTorch
    gc.collect()
    gc.freeze()


def _pytest(tree: Path, arguments: list[str], plugin: object) -> int:
    """Runs tests in this process, of which nothing is used afterwards."""
    import hypothesis
    import pytest

    hypothesis.settings.register_profile("judge", deadline=None)  # busy machines are slow, not wrong
    hypothesis.settings.load_profile("judge")
    os.chdir(tree)
    os.environ.update(
        PYTHONPATH=str(tree / "src"),
        PILLION_CACHE=str(tree.parents[2] / "cache"),
        PILLION_TESTS_DAY="1",  # the tests that were mapped are those that are asked
        PILLION_TESTS_TODAY="1",
        OMP_NUM_THREADS="1",
    )
    sys.path[:] = [str(tree / "src"), *(p for p in sys.path if not p.endswith(("/src", "/tools/mutants")))]
    return int(pytest.main([*OPTIONS, *arguments], plugins=[plugin]))


def in_child(work: Callable[[], Any], limit: float, log: Path) -> tuple[bool, Any]:
    """Does work in a forked process group; whether it ended within so many seconds of its processor, and what it returned. On a
    busy machine those seconds take longer, but one that only waits is ended too."""
    answer = log.with_suffix(".answer")
    answer.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 1))
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        try:
            answer.write_text(json.dumps(work()), "utf-8")
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(0)
    end = time.monotonic() + MOST_WAITING * limit
    done = status = 0
    while done == 0 and time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if done == 0:
        os.waitpid(pid, 0)
    in_time = done != 0 and not os.WIFSIGNALED(status)
    return in_time, json.loads(answer.read_text("utf-8")) if answer.exists() else None


def map_of(folder: str, maps: Path) -> Path:
    """Gives the file that knows the tests of a folder."""
    return maps / f"tests-{folder.replace('/', '-')}.json"


def map_tests(tree: Path, folder: str, to: Path) -> None:
    """Writes down the tests of a folder with what they call and how long they take; those files that are known with the same text
    are not run again."""
    known: dict[str, Any] = {"tests": {}, "files": {}, "texts": {}}
    if to.exists():
        known = json.loads(to.read_text("utf-8"))
    files = sorted((tree / "tests" / folder).rglob("test_*.py"))
    texts = {str(f.relative_to(tree)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}
    stale = [name for name, text in texts.items() if known["texts"].get(name) != text]
    if not stale:
        return
    found = to.with_suffix(".found")

    def work() -> int:
        recorder = Recorder(marks.install(tree / "src" / "pillion", PYTHON_PARTS))
        code = _pytest(tree, stale, recorder)
        recorder.save(found)
        return code

    log = to.with_suffix(".log")
    _, code = in_child(work, 3600, log)
    if code not in (0, 1, 5):  # all passed, some failed, none collected
        raise RuntimeError(f"the tests of {folder} cannot be collected: see {log}")
    new = json.loads(found.read_text("utf-8"))
    for kind in ("tests", "files"):
        kept = {
            name: row for name, row in known[kind].items() if name.split("::")[0] in set(texts) - set(stale)
        }
        known[kind] = {**kept, **new[kind]}
    to.write_text(json.dumps({**known, "texts": texts}), "utf-8")


def known_tests(part: Part, maps: Path) -> dict[str, Any]:
    """What is known of all tests of a part."""
    known: dict[str, Any] = {"tests": {}, "files": {}}
    for folder in part.judges:
        if not map_of(folder, maps).exists():
            continue
        found = json.loads(map_of(folder, maps).read_text("utf-8"))
        for kind in known:
            known[kind].update(found[kind])
    return known


def judge(fault: Fault, part: Part, tree: Path, known: dict[str, Any], patient: bool = False) -> Judgement:
    """Plants the fault, asks the nearest tests and then the others, and restores the file. A patient judge asks all
    tests that call the function and all of the part's own folder, however long they take."""
    path, start = tree / fault.path, time.monotonic()
    text = path.read_text("utf-8")
    planted = fault.planted(text)
    try:
        path.write_text(planted, "utf-8")
        if planted == text or not _compiles(path, tree):
            return Judgement("stillborn", None, 0, 0)
        names = _chosen(fault, part, text, known, patient)
        first = _most_telling(names, part, known["tests"])
        said = _asked(first, tree, known, start)
        rest = [name for name in names if name not in set(first)]
        return _asked(rest, tree, known, start) if said.outcome == "survived" and rest else said
    finally:
        path.write_text(text, "utf-8")


def _most_telling(names: list[str], part: Part, tests: dict[str, Any]) -> list[str]:
    """Quick tests of the files that have most of the nearest ones, in the part's own folder where it has some. Others are not even
    imported as long as these do notice."""
    near = names[:MOST_TELLING]
    near = [name for name in near if name.startswith(f"tests/{part.tests[0]}/")] or near
    files = Counter(name.split("::")[0] for name in near)
    most = {file for file, _ in files.most_common(2)}
    return list(_within(FIRST, [name for name in names if name.split("::")[0] in most], tests))


def _asked(names: list[str], tree: Path, known: dict[str, Any], start: float) -> Judgement:
    if not names:  # pytest would run all tests
        return Judgement("survived", None, 0, 0)
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
        raise RuntimeError(f"no answer: see {tree.with_suffix('.log')}")
    return Judgement(outcome, failed, len(names), round(time.monotonic() - start, 1))


def _chosen(fault: Fault, part: Part, text: str, known: dict[str, Any], patient: bool) -> list[str]:
    """The nearest tests, then others of the part while the budget lasts."""
    tests = known["tests"]
    quick = sorted(tests, key=lambda n: tests[n][0])
    if part.name == KERNELS:
        quick.sort(key=lambda n: (*kernel_order(fault.path, n), tests[n][0]))
        nearest: list[str] = []
    else:
        path = str(Path(fault.path).relative_to("src/pillion"))
        nearest = tests_of(known, path, _functions_around(text, fault.edit.line))
        nearest.sort(
            key=lambda n: not n.startswith(f"tests/{part.tests[0]}/")
        )  # stable: quick ones stay first
    seen = set(nearest)
    others = [n for n in quick if n not in seen]
    if patient:
        return [*nearest, *(n for n in others if n.startswith(f"tests/{part.tests[0]}/"))]
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
