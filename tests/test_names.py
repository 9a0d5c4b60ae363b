# SPDX-License-Identifier: Apache-2.0
"""Checks names and module docstrings: a module's name says where it is, and its docstring says what it holds."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "pillion"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.name not in ("__init__.py", "__main__.py"))

MIRRORS = (
    # Every door and every list of kernels has a file for each family of operators.
    ("ops", "codecs", "importers", "emitters", "importers/torch/rewrite"),
    # Processors answer the same questions.
    ("devices/cortex_m", "devices/neutron", "devices/ethos_u", "devices"),
    # A command is named like the module that does its work.
    ("cli", "evaluation", "run", "report", "ir"),
)
"""Folders that mirror one another: a name may stand once in each of them, or of the folders below them."""


def mirrored(folders: list[str]) -> bool:
    return any(all(any(f == m or f.startswith(m + "/") for m in group) for f in folders) for group in MIRRORS)


def test_two_modules_share_a_name_only_in_folders_that_mirror_one_another() -> None:
    places = defaultdict(list)
    for path in MODULES:
        places[path.name].append(path.parent.relative_to(PACKAGE).as_posix())
    assert {n: f for n, f in places.items() if len(f) > 1 and not mirrored(f)} == {}


def test_no_two_modules_of_a_folder_differ_by_an_ending() -> None:
    stems = defaultdict(set)
    for path in MODULES:
        stems[path.parent].add(path.stem)
    endings = ("s", "ing", "ed", "es", "er")
    twins = [
        f"{folder.relative_to(PACKAGE)}/{stem}{ending}"
        for folder, names in stems.items()
        for stem in names
        for ending in endings
        if f"{stem}{ending}" in names
    ]
    assert twins == []


def opening(path: Path) -> str:
    """Returns the first paragraph of a module's docstring, or of its main function's: a pass is called as its file."""
    tree = ast.parse(path.read_text("utf-8"))
    main = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == path.stem]
    text = ast.get_docstring(tree) or (ast.get_docstring(main[0]) if main else "") or ""
    return text.split("\n\n")[0]


def test_every_module_begins_with_a_sentence_of_at_most_three_lines() -> None:
    said = {path.relative_to(PACKAGE).as_posix(): opening(path) for path in sorted(PACKAGE.rglob("*.py"))}
    wrong = [
        f"{name}: {text!r}"
        for name, text in said.items()
        if not re.match(r"[A-Z0-9`\"'].*[.:]$", text, re.S) or len(text.splitlines()) > 3
    ]
    assert wrong == []


def test_no_test_file_is_called_more() -> None:
    assert [p.name for p in Path(__file__).parent.rglob("test_*_more.py")] == []
