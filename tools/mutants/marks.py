# SPDX-License-Identifier: Apache-2.0
"""Functions that say that they are called. `sys.settrace` would tell too, but tests would take several times as long."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

SET = "__functions_called__"


class _Loader(SourceFileLoader):
    root = Path()

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path))
        place = Path(path).relative_to(self.root)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                mark = ast.parse(f"{SET}.add({f'{place}:{first}'!r})").body
                behind = int(ast.get_docstring(node) is not None)
                node.body[behind:behind] = mark
        return compile(ast.fix_missing_locations(tree), path, "exec")


class _Finder(MetaPathFinder):
    def __init__(self, root: Path, folders: tuple[str, ...]) -> None:
        self.names = tuple(f"pillion.{folder}" for folder in folders)
        _Loader.root = root

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(self.names):
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec and spec.origin:
            spec.loader = _Loader(fullname, spec.origin)
        return spec


def install(root: Path, folders: tuple[str, ...]) -> set[str]:
    """From now on functions of modules in these folders of the package put `path:line` into the set that is returned, the
    path seen from the root and the line that where they begin, decorators included."""
    called: set[str] = set()
    vars(builtins)[SET] = called
    sys.meta_path.insert(0, _Finder(root, folders))
    return called
