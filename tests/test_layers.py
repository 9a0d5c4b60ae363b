# SPDX-License-Identifier: Apache-2.0
"""Imports go one way, typing imports and imports inside functions included; torch is imported only where torch is spoken of."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "pillion"

GROUND = {"errors", "choices"}
FLOOR = GROUND | {"ir", "ops"}
FILES = GROUND | {"outside"}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "choices": set(),
    "named": FILES | {"zoo"},
    "outside": GROUND,
    "schemas": GROUND,
    "ir": GROUND,
    "ops": FLOOR,
    "passes": FLOOR,
    "memory": FLOOR,
    "devices": FLOOR | FILES | {"passes", "schemas"},
    "zoo": FILES,
    "data": FLOOR | FILES,
    "boards": FILES,
    "importers": FILES,
    "importers.tflite": FLOOR | FILES | {"schemas"},
    "importers.tflite_float": FLOOR | {"schemas", "importers.tflite", "importers.torch"},
    "importers.pte": FLOOR | FILES | {"schemas", "importers.tflite"},
    "importers.torch": FLOOR | FILES | {"zoo", "named", "data"},
    "place": FLOOR | {"devices"},
    "targets": GROUND | {"devices", "ir"},
    "emitters": GROUND,
    "emitters.segments": FLOOR | {"devices", "emitters.tflite"},
    "emitters.tflite": FLOOR | {"schemas"},
    "emitters.pte": FLOOR | {"schemas", "memory", "devices"},
    "emitters.c": FLOOR | FILES | {"memory", "devices", "boards"},
    "stripes": FLOOR | {"memory", "devices", "boards", "emitters.c"},
    "streams": FLOOR,
    "report": FLOOR
    | FILES
    | {
        "data",
        "memory",
        "passes",
        "devices",
        "boards",
        "targets",
        "place",
        "run",
        "emitters.c",
        "importers.pte",
    },
    "run": FLOOR
    | FILES
    | {
        "schemas",
        "devices",
        "boards",
        "targets",
        "emitters.c",
        "emitters.pte",
        "emitters.segments",
        "emitters.tflite",
        "importers.pte",
    },
}
"""Part → the parts that it may import beside itself. Each file of the package belongs to one of these parts, or stands above all."""
ALLOWED["program"] = set(ALLOWED) - {"importers.torch", "zoo", "data"}
ALLOWED["compiler"] = set(ALLOWED)
ALLOWED["evaluation"] = set(ALLOWED)
ALLOWED["sweep"] = set(ALLOWED)
ALLOWED["cli"] = set(ALLOWED)
ALLOWED["executors"] = ALLOWED["quantize"] = set(ALLOWED)
"""Old names of the API, which only import (see test_public_names.py)."""
ALLOWED[""] = set(ALLOWED)

TORCH = {"importers.torch", "importers.tflite_float", "outside.threads", "zoo", "run.executorch"}
"""Where torch may be imported when the file is."""
HEAVY = {
    "torch",
    "torchao",
    "executorch",
    "ai_edge_litert",
    "flatbuffers",
    "rich",
    "typer",
    "numpy",
    "eiq_neutron_sdk",
    "ethosu",
}
"""What takes so long to import, or is so often missing, that it is worth an import inside a function."""


@dataclass(frozen=True)
class Arrow:
    """One import: the module that it names, the line, and whether it runs when the file is imported."""

    module: str
    line: int
    when: str
    """`loaded`, `typing` or `called`."""


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(SOURCE.rglob("*.py"))}


def part_of(module: str) -> str | None:
    """The most special part that a module belongs to."""
    fitting = [p for p in ALLOWED if module == p or (p and module.startswith(f"{p}."))]
    return max(fitting, key=len, default="" if module in ("", "__main__") else None)


@cache
def arrows(module: str) -> tuple[Arrow, ...]:
    tree = ast.parse(MODULES[module].read_text("utf-8"))
    typing = {id(n) for block in ast.walk(tree) if is_type_checking(block) for n in ast.walk(block)}
    called = {
        id(n) for f in ast.walk(tree) if isinstance(f, (ast.FunctionDef, ast.Lambda)) for n in ast.walk(f)
    }
    found = []
    for node in ast.walk(tree):
        when = "typing" if id(node) in typing else "called" if id(node) in called else "loaded"
        found += [Arrow(name, node.lineno, when) for name in named(node)]
    return tuple(found)


def named(node: ast.AST) -> Iterator[str]:
    """The modules that an import statement names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = "." * node.level + (node.module or "")
        for alias in node.names:
            deeper = f"{base}.{alias.name}"
            yield deeper if deeper.removeprefix("pillion.") in MODULES else base


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def inside(arrow: Arrow) -> str | None:
    """The module of this package that an arrow leads to."""
    name = arrow.module.removeprefix("pillion").removeprefix(".")
    return name if arrow.module.split(".")[0] == "pillion" else None


def test_every_module_belongs_to_a_part() -> None:
    assert [m for m in MODULES if part_of(m) is None] == [], "add a row to ALLOWED in tests/test_layers.py"


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_one_way(module: str) -> None:
    own = part_of(module)
    assert own is not None
    wrong = [
        f"line {arrow.line}: {arrow.module}"
        for arrow in arrows(module)
        if arrow.module.startswith(".")
        or ((to := inside(arrow)) is not None and to and part_of(to) not in ALLOWED[own] | {own})
    ]
    assert not wrong, f"{own} must not import these; it may import {sorted(ALLOWED[own])}"


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = {m: {to for a in arrows(m) if (to := inside(a)) and to in MODULES and to != m} for m in MODULES}
    assert circles(graph) == []


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """What is left of a graph when everything that leads nowhere is taken away, again and again, from both sides."""
    left = {m: set(to) for m, to in graph.items()}
    while True:
        ends = {m for m, to in left.items() if not to & left.keys()}
        sources = left.keys() - {t for to in left.values() for t in to}
        if not ends | sources:
            return [sorted(left)] if left else []
        left = {m: to & left.keys() for m, to in left.items() if m not in ends | sources}


@pytest.mark.parametrize("module", MODULES)
def test_only_what_is_heavy_is_imported_late(module: str) -> None:
    late = {
        f"line {arrow.line}: {arrow.module}"
        for arrow in arrows(module)
        if arrow.when == "called" and (to := inside(arrow)) and not is_heavy(to)
    }
    assert not late, "import these at the top of the file"


@cache
def is_heavy(module: str) -> bool:
    """Whether importing a module of ours imports what is HEAVY."""
    seen, waiting = {module}, [module]
    while waiting:
        for arrow in arrows(waiting.pop()):
            if arrow.when != "loaded":
                continue
            if arrow.module.split(".")[0] in HEAVY:
                return True
            to = inside(arrow)
            if to in MODULES and to not in seen:
                seen.add(to)
                waiting.append(to)
    return False


@pytest.mark.parametrize("module", MODULES)
def test_torch_stays_where_it_belongs(module: str) -> None:
    if any(module == part or module.startswith(f"{part}.") for part in TORCH):
        return
    roots = {arrow.module.split(".")[0] for arrow in arrows(module) if arrow.when != "typing"}
    assert not roots & {"torch", "torchao"}


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


@pytest.mark.parametrize("module", MODULES)
def test_operators_are_compared_as_objects(module: str) -> None:
    tree = ast.parse(MODULES[module].read_text("utf-8"))
    compares = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    assert not [node.lineno for node in compares for side in (node.left, *node.comparators) if _texts(side)]
