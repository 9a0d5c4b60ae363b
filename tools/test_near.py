# SPDX-License-Identifier: Apache-2.0
"""Runs the tests that a change can break: `make test-near`, or `make test-near BASE=v1.2`.

Tests near a changed file of the package or a kernel are those of its part in tools/mutants/parts.py; a changed test is run itself."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools" / "mutants"))

from parts import KERNELS, PARTS  # noqa: E402

SOURCE, TESTS = "src/pillion/", "tests/"
LINTS = ("test_layers.py", "test_docstrings.py", "devices/test_one_folder.py")
"""Tests that read every file of the package."""


def changed(base: str) -> set[str]:
    """Returns the files that differ from a commit, and the files that are not committed."""
    commands = (["diff", "--name-only", base], ["ls-files", "--others", "--exclude-standard"])
    return {line for command in commands for line in git(*command).splitlines()}


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def near(paths: Iterable[str]) -> list[str]:
    """Returns files and folders of tests, each once: none lies in another."""
    found = {test for path in paths for test in near_one(path) if (ROOT / TESTS / test).exists()}
    return sorted(test for test in found if not found & {str(above) for above in Path(test).parents})


def near_one(path: str) -> set[str]:
    if path.startswith(TESTS):
        inside = Path(path).relative_to(TESTS)
        # A helper is used by the tests beside it; those of the root, by any.
        return {str(inside if inside.name.startswith("test_") else inside.parent)}
    if path.startswith("kernels/"):
        return {KERNELS, "emitters"}
    if path.startswith("docs/") or path.endswith(".md"):
        return {"test_docs.py", "test_tutorials.py"}
    if not path.startswith(SOURCE):
        return set()
    parts = [
        part for part in PARTS if path.startswith(f"{SOURCE}{part.folder or part.name}/") and part.has(path)
    ]
    own = {test for part in parts for test in part.tests} or {"cli", "test_program.py"}
    return {*own, *LINTS}


def main() -> None:
    base = sys.argv[1] if len(sys.argv) > 1 else "main"
    tests = near(changed(git("merge-base", base, "HEAD").strip()))
    if not tests:
        print(f"nothing differs from {base}")
        return
    print("tests near the change:", *tests, flush=True)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "auto",
        "--dist",
        "worksteal",
        *(TESTS + t for t in tests),
    ]
    sys.exit(subprocess.run(command, cwd=ROOT, check=False).returncode)


if __name__ == "__main__":
    main()
