# SPDX-License-Identifier: Apache-2.0
"""Imports go one way, typing imports and imports inside functions included; torch is imported only where torch is spoken of."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "pillion"

OPTIONS = {
    "option_values",
    "option_record",
    "option_parsers",
    "toml_parser",
    "chip_memory",
    "compile_options",
}
GROUND = {"errors", "registry"} | OPTIONS
FLOOR = GROUND | {"ir", "ops"}
FILES = GROUND | {"host_io"}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "registry": {"errors"},
    **dict.fromkeys(sorted(OPTIONS), {"errors"} | OPTIONS),
    "model_names": FILES | {"zoo"},
    "host_io": GROUND,
    "schemas": GROUND,
    "ir": GROUND,
    "ops": FLOOR,
    "passes": FLOOR | {"compensated_rounding"},
    "memory": FLOOR,
    "devices": FLOOR | FILES | {"passes", "schemas"},
    "zoo": FILES,
    "modules": {"errors"},
    "data": FLOOR | FILES,
    "boards": FILES,
    "codecs": FLOOR | {"schemas"},
    "importers": FILES,
    "importers.tflite": FLOOR | FILES | {"schemas", "codecs"},
    "importers.tflite_float": FLOOR | {"schemas", "codecs", "importers.tflite", "importers.torch"},
    "importers.pte": FLOOR | FILES | {"schemas", "codecs", "importers.tflite"},
    "importers.torch": FLOOR | FILES | {"zoo", "model_names", "data", "modules", "compensated_rounding"},
    "partition": FLOOR | {"devices"},
    "targets": GROUND | {"devices", "ir"},
    "emitters": GROUND,
    "emitters.segments": FLOOR | {"devices", "emitters.tflite"},
    "emitters.image_delegate": FLOOR | {"schemas", "memory", "emitters.c", "emitters.image", "emitters.pte"},
    "emitters.tflite": FLOOR | {"schemas", "codecs"},
    "emitters.pte": FLOOR | {"schemas", "codecs", "memory", "devices"},
    "emitters.c": FLOOR | FILES | {"memory", "devices", "boards"},
    "emitters.image": FLOOR | FILES | {"memory", "devices", "emitters.c"},
    "tiling": FLOOR | {"memory", "devices", "boards", "emitters.c"},
    "streams": FLOOR,
    "compensated_rounding": set(),
    "flash_budget": FLOOR | {"passes", "host_io"},
    "report": FLOOR
    | FILES
    | {
        "data",
        "memory",
        "passes",
        "devices",
        "boards",
        "targets",
        "partition",
        "run",
        "emitters.c",
        "emitters.image",
        "importers.pte",
    },
    "packages": FLOOR | FILES | {"boards", "devices", "emitters.c"},
    "run": FLOOR
    | FILES
    | {
        "data",
        "memory",
        "schemas",
        "devices",
        "boards",
        "targets",
        "emitters.c",
        "emitters.image",
        "emitters.pte",
        "emitters.segments",
        "emitters.tflite",
        "importers.pte",
    },
}
"""Part → the parts that it may import beside itself. Each file of the package belongs to one of these parts, or stands above all."""
ALLOWED["pass_pipeline"] = FLOOR | {"passes", "devices", "streams", "targets"}
ALLOWED["compiled_program"] = (
    FLOOR
    | FILES
    | {
        "boards",
        "memory",
        "devices",
        "emitters.c",
        "emitters.segments",
        "importers.pte",
        "partition",
        "run",
        "targets",
        "tiling",
    }
)
ALLOWED["overlap"] = FLOOR | {"compiled_program", "emitters.c", "memory"}
ALLOWED["report"] |= {"compiled_program", "overlap"}
ALLOWED["program_files"] = set(ALLOWED) - {"importers.torch", "zoo", "data"}
ALLOWED["program"] = {"compiled_program", "program_files", "report", "run"}
ALLOWED["npu_settings"] = GROUND | {"program", "targets"}
ALLOWED["executorch"] = {
    "compile_options",
    "compiler",
    "errors",
    "importers.torch",
    "ir",
    "ops",
    "program",
    "program_files",
    "targets",
}
ALLOWED["fit_flash"] = FLOOR | {"compile_options", "emitters.c", "flash_budget", "program"}
ALLOWED["budgets"] = set(ALLOWED)
ALLOWED["read_model"] = FLOOR | {
    "host_io",
    "importers.pte",
    "importers.tflite",
    "importers.tflite_float",
    "importers.torch",
    "model_names",
    "partition",
    "targets",
}
ALLOWED["compiler"] = set(ALLOWED)
ALLOWED["evaluation"] = set(ALLOWED)
ALLOWED["sweep"] = set(ALLOWED)
ALLOWED["cli"] = set(ALLOWED)
ALLOWED["executors"] = ALLOWED["quantize"] = set(ALLOWED)
"""Old names of the API, which only import (see test_public_names.py)."""
ALLOWED[""] = set(ALLOWED)

SEPARABLE: dict[str, set[str]] = {
    "sweep": {"cli.sweep", "cli.sweep_output"},
    "devices.ethos_u.stream": {
        "devices.ethos_u.vela.compiled",
        "devices.ethos_u.host_driver",
        "devices.ethos_u.payload",
    },
    "importers.tflite_float": {"read_model", "cli.named_program"},
    "importers.torch.rewrite.spectra": {
        "importers.torch.rewrite.sample_frames",
        "importers.torch.rewrite.lower_complex",
    },
}
"""Parts that could be packages of their own → the modules outside them that import them."""

TORCH = {
    "executorch",
    "importers.torch",
    "importers.tflite_float",
    "host_io.torch_threads",
    "modules",
    "zoo",
    "run.executorch",
}
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
def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text("utf-8"))


@cache
def arrows(module: str) -> tuple[Arrow, ...]:
    return tuple(
        Arrow(name, node.lineno, when)
        for node, when in statements(tree_of(module), "loaded")
        for name in named(node)
    )


def statements(node: ast.AST, when: str) -> Iterator[tuple[ast.stmt, str]]:
    """All statements below one, and when they run."""
    if is_type_checking(node):
        when = "typing"
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and when == "loaded":
        when = "called"
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, field, ()):
            if isinstance(inner, ast.stmt):
                yield inner, when
            yield from statements(inner, when)


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


def test_imports_go_one_way() -> None:
    wrong = [
        f"{MODULES[module]}:{arrow.line} imports {arrow.module}; {part_of(module)} may import {sorted(allowed)}"
        for module in MODULES
        for allowed in [ALLOWED[part_of(module) or ""] | {part_of(module)}]
        for arrow in arrows(module)
        if arrow.module.startswith(".") or ((to := inside(arrow)) and part_of(to) not in allowed)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("part", SEPARABLE)
def test_parts_that_could_be_packages_are_entered_at_named_places(part: str) -> None:
    def belongs(module: str) -> bool:
        return module == part or module.startswith(f"{part}.")

    entering = {
        module
        for module in MODULES
        if not belongs(module) and any(belongs(inside(arrow) or "") for arrow in arrows(module))
    }
    # A checkout without a device's folder lacks its doors, too.
    assert entering == SEPARABLE[part] & MODULES.keys()


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


def test_late_imports_are_of_heavy_modules_alone() -> None:
    late = {
        f"{MODULES[module]}:{arrow.line} imports {arrow.module}"
        for module in MODULES
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


def test_torch_stays_where_it_belongs() -> None:
    wrong = [
        f"{MODULES[module]}:{arrow.line} imports {arrow.module}"
        for module in MODULES
        if not any(module == part or module.startswith(f"{part}.") for part in TORCH)
        for arrow in arrows(module)
        if arrow.when != "typing" and arrow.module.split(".")[0] in ("torch", "torchao")
    ]
    assert not wrong, f"only {sorted(TORCH)} may import torch"


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


def test_operators_are_compared_as_objects() -> None:
    wrong = [
        f"{path}:{node.lineno}"
        for module, path in MODULES.items()
        if ".target" in path.read_text("utf-8")
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.Compare) and any(map(_texts, (node.left, *node.comparators)))
    ]
    assert not wrong


def test_no_import_is_circular() -> None:
    """Every module can be the first that is imported."""
    modules = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    graph = {name: imports_at_import(name, path, set(modules)) for name, path in modules.items()}
    assert len(tuple(TopologicalSorter(graph).static_order())) == len(modules)


def imports_at_import(name: str, path: Path, modules: set[str]) -> set[str]:
    """What importing a module imports: no typing imports, none inside functions, and the packages around each."""
    tree = ast.parse(path.read_text())
    found = set()
    for node in tree.body:
        for part in ast.walk(node) if isinstance(node, ast.With | ast.Try) else [node]:
            if isinstance(part, ast.Import):
                found |= {alias.name for alias in part.names}
            if isinstance(part, ast.ImportFrom) and part.module:
                inner = {f"{part.module}.{alias.name}" for alias in part.names}
                found |= {m if m in modules else part.module for m in inner}
    around = {one.rsplit(".", k)[0] for one in found for k in range(one.count(".") + 1)}
    return {one for one in around if one in modules and not f"{name}.".startswith(f"{one}.")}
