# SPDX-License-Identifier: Apache-2.0
"""Imports go one way, and torch is imported only where torch is spoken of."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "pillion"

BASE = {"errors"}
FLOOR = BASE | {"ir", "ops"}
FORMATS = {"schemas"}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "child": BASE,
    "declared": set(),
    "threads": set(),
    "files": BASE,
    "folders": BASE | {"declared", "files"},
    "arrays": BASE | {"files"},
    "schemas": BASE,
    "ir": BASE,
    "ops": FLOOR,
    "passes": FLOOR,
    "memory": FLOOR,
    "devices": FLOOR,
    "boards": BASE | {"child", "files"},
    "importers": FLOOR | FORMATS | {"files"},
    "quantize": FLOOR | {"importers", "arrays", "files", "threads"},
    "zoo": BASE | {"files", "arrays", "threads"},
    "emitters": FLOOR | FORMATS | {"memory", "devices", "boards", "files", "child", "declared", "folders"},
    "place": FLOOR | {"devices", "passes"},
    "capture": BASE | {"zoo", "quantize", "files", "pt2"},
    "pt2": BASE | {"files"},
    "targets": BASE | {"devices", "ir"},
    "executorch_host": FLOOR | FORMATS | {"child", "declared", "emitters", "importers", "boards", "devices"},
}
"""Part → the parts that it may import. Parts that are not named stand above all others."""

TORCH_PARTS = {"capture", "pt2", "quantize", "threads", "zoo", "executorch_host"}
TORCH_FILES = {f"importers/{name}" for name in ("torch_export.py", "aten/rows.py", "aten/functions.py")}

FILES = sorted(SOURCE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """The modules that a file imports when it is run or type-checked."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names if node.module == "pillion")
    return names


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_one_way(path: Path) -> None:
    part = part_of(path)
    if part not in ALLOWED:
        return
    parts = {name.split(".")[1] for name in imported(path) if name.startswith("pillion.")}
    wrong = {
        p for p in parts - ALLOWED[part] - {part} if (SOURCE / p).is_dir() or (SOURCE / f"{p}.py").is_file()
    }
    assert not wrong, f"{part} must not import {sorted(wrong)}; it may import {sorted(ALLOWED[part])}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_torch_stays_where_it_belongs(path: Path) -> None:
    if part_of(path) in TORCH_PARTS or path.relative_to(SOURCE).as_posix() in TORCH_FILES:
        return
    tree = ast.parse(path.read_text("utf-8"))
    guarded = {id(n) for block in ast.walk(tree) if is_type_checking(block) for n in ast.walk(block)}
    roots = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if id(node) not in guarded and isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""])
    }
    assert not roots & {"torch", "torchao"}


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def test_importing_the_package_is_light() -> None:
    code = "import sys, pillion; print(sorted({'torch', 'numpy', 'rich', 'typer'} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_the_command_line_answers_without_torch() -> None:
    code = (
        "import sys\nfrom pillion.cli import main\nsys.argv = ['pillion', 'targets']\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "assert 'torch' not in sys.modules and 'rich.live' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


def _texts(node: ast.AST) -> bool:
    """Is this the name of an operator, as text?"""
    spelled = ast.unparse(node)
    return (".target)" in spelled and spelled.startswith("str(")) or spelled.endswith(".target.__name__")


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_operators_are_compared_as_objects(file: Path) -> None:
    tree = ast.parse(file.read_text("utf-8"))
    compares = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    assert not [node.lineno for node in compares for side in (node.left, *node.comparators) if _texts(side)]
