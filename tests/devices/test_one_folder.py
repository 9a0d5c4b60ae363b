# SPDX-License-Identifier: Apache-2.0
"""An NPU is one folder: nobody else calls it by name, and without it everything else works."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pillion.targets import npu_targets

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "pillion"
CORES = "cortex_m"
"""The processor that every chip has; what ExecuTorch calls its operators begins with this word."""
NPUS = sorted(path.name for path in (PACKAGE / "devices").iterdir() if path.is_dir() and path.name[0] != "_")
NPUS.remove(CORES)

CHIPS = {name for target in npu_targets() for name in (target.name, *target.aliases)}
NAMES = {*NPUS, *CHIPS, *(t.delegate for t in npu_targets()), *(t.npu.name for t in npu_targets() if t.npu)}
OWNERS = ("targets.py", *(f"devices/{npu}/" for npu in NPUS))
OTHERS = [
    path
    for path in sorted(PACKAGE.rglob("*.py"))
    if not path.relative_to(PACKAGE).as_posix().startswith(OWNERS)
]


def words(tree: ast.AST) -> list[tuple[int, str]]:
    """All that a file says in strings and imports, docstrings too."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append((node.lineno, node.value))
        elif isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.lineno, f"{node.module}.{alias.name}") for alias in node.names]
    return found


def test_npu_names_appear_in_device_folders_alone() -> None:
    named = [
        f"{path.relative_to(ROOT)}:{line} says {name}"
        for path in OTHERS
        if any(name.lower() in path.read_text("utf-8").lower() for name in NAMES)
        for line, text in words(ast.parse(path.read_text("utf-8")))
        for name in NAMES
        if name.lower() in text.lower()
    ]
    assert not named, "these are about one NPU: ask the device, or derive it from TARGETS"


class WithoutNpu(ast.NodeTransformer):
    """`targets.py` without the import of a folder, and without the targets that are made of it."""

    def __init__(self, npu: str) -> None:
        self.npu = npu

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        if f"pillion.devices.{self.npu}" in (node.module or ""):
            return None
        node.names = [alias for alias in node.names if alias.name != self.npu]
        return node if node.names else None

    def visit_Tuple(self, node: ast.Tuple) -> ast.AST:
        node.elts = [row for row in node.elts if not self.is_made_of_it(row)]
        return self.generic_visit(node)

    def is_made_of_it(self, row: ast.AST) -> bool:
        names = {n.id for n in ast.walk(row) if isinstance(n, ast.Name)}
        return isinstance(row, (ast.Call, ast.Attribute, ast.Starred)) and self.npu in names


def without(npu: str, folder: Path) -> Path:
    """A copy of the project that has never heard of an NPU."""
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")
    for part in ("src", "kernels", "tests"):
        shutil.copytree(ROOT / part, folder / part, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", folder)
    for part in ("src/pillion", "tests"):
        shutil.rmtree(folder / part / "devices" / npu)
    rows = folder / "src" / "pillion" / "targets.py"
    rows.write_text(ast.unparse(WithoutNpu(npu).visit(ast.parse(rows.read_text("utf-8")))), "utf-8")
    return folder


IMPORT_ALL = """
import importlib, pkgutil, pillion
for found in pkgutil.walk_packages(pillion.__path__, "pillion."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
assert pillion.__file__.startswith({folder!r}), pillion.__file__
"""
COMPILE = """
import numpy, pillion
from pillion import zoo
module, example = zoo.build("ds_cnn")
program = pillion.compile(module, example, target="cortex-m55+int8")
x = example[0].numpy()
numpy.testing.assert_array_equal(program.run(x)[0], program.run(x, on="host")[0])
assert program.pte() and program.explain()
"""
TESTS = ("ir", "passes", "memory", "ops/test_identities.py", "devices/test_second_npu.py", "test_layers.py")
PYTEST = (
    "import sys, pytest; sys.exit(pytest.main(['-qx', '-p', 'no:cacheprovider', '-m', 'not slow', *{paths}]))"
)
LISTINGS = """
from pillion.cli.catalog import describe_device
from pillion.cli import app
from typer.testing import CliRunner
assert describe_device("cortex-m55")
for command in (["targets"], ["ops"], ["models"]):
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
"""


@pytest.mark.turns(20)
@pytest.mark.slow
@pytest.mark.parametrize("npu", NPUS)
def test_other_targets_work_without_an_npus_folder(npu: str, tmp_path: Path) -> None:
    folder = without(npu, tmp_path / "project")
    tests = PYTEST.format(paths=[str(folder / "tests" / test) for test in TESTS])
    steps = {
        "importing every module": IMPORT_ALL.format(folder=str(folder)),
        "listing what there is": LISTINGS,
        "compiling and running a model": COMPILE,
        f"the tests of {', '.join(TESTS)}": tests,
    }
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder / "src"),
        "PILLION_CACHE": os.environ.get("PILLION_CACHE", str(tmp_path / "cache")),
    }
    for what, code in steps.items():
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True
        )
        said = "\n".join((done.stdout + done.stderr).splitlines()[-30:])
        assert done.returncode == 0, f"without devices/{npu}: {what} fails\n{said}"
