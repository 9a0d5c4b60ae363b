# SPDX-License-Identifier: Apache-2.0
"""Names for contents: of files and folders, of Python files with all that they import from beside them, and of Pillion itself."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

import pillion
from pillion.boards.toolchain import ARM_COMPILER, QEMU, version
from pillion.emitters.c.structs import kernel_folder
from pillion.errors import PillionError
from pillion.outside.files import regular_file, suffix_of

_SHORT = 16
_AT_ONCE = 1 << 20
_PACKAGES = ("torch", "torchao", "numpy")
"""Packages whose version may change a program."""


def name_of_content(path: Path) -> str:
    """Gives a name for the content of a file, or of all files in a folder by their names."""
    if not path.is_dir():
        return _of_file(regular_file(path, "model or data"))
    total = hashlib.sha256()
    for file in sorted(one for one in path.rglob("*") if one.is_file()):
        total.update(f"{file.relative_to(path).as_posix()}\0{_of_file(file)}\n".encode())
    return total.hexdigest()[:_SHORT]


def _of_file(path: Path) -> str:
    found = path.stat()
    return _hashed(path, found.st_mtime_ns, found.st_size, found.st_ino)


@cache
def _hashed(path: Path, changed: int, size: int, number: int) -> str:
    """Large data are read once by each process, as long as they are not written again."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(_AT_ONCE):
            total.update(part)
    return total.hexdigest()[:_SHORT]


def python_sources(path: Path) -> list[Path]:
    """Gives a Python file and the files beside it that it imports, and those that they import."""
    folder, found, waiting = path.resolve().parent, [], [regular_file(path, ".py").resolve()]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.append(file)
            waiting += [one for name in _imported(file) for one in _beside(folder, name)]
    return sorted(found)


def _imported(file: Path) -> Iterator[str]:
    """The names of modules that a file's import statements name, with the packages that they lie in."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # whoever runs it will say what is wrong with it
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level  # within a package, which is taken whole


def _beside(folder: Path, name: str) -> Iterator[Path]:
    """The file of a module that lies in the folder. A package is taken whole."""
    first = name.split(".")[0]
    if first and (folder / first / "__init__.py").is_file():
        yield from sorted((folder / first).resolve().rglob("*.py"))
    elif first and (folder / f"{first}.py").is_file():
        yield (folder / f"{first}.py").resolve()


def files_of(name: str) -> list[Path]:
    """Gives the files that a path, or `file.py:name`, stands for."""
    file, colon, _ = name.rpartition(":")
    if colon and suffix_of(file) == ".py":
        return python_sources(Path(file))
    path = Path(name)
    if not path.exists():
        raise PillionError(
            f"{path} is not there",
            rule="paths in a sweep file are seen from its folder",
            here=name,
            help="look at the path",
        )
    return [path]


@cache
def name_of_pillion() -> str:
    """Gives a name for this version of Pillion: its number, its own files, and the packages that it quantizes with."""
    total = hashlib.sha256()
    for root in (Path(pillion.__file__).parent, kernel_folder()):
        for file in sorted(one for one in root.rglob("*") if one.is_file() and one.suffix != ".pyc"):
            total.update(f"{file.relative_to(root).as_posix()}\0".encode())
            total.update(file.read_bytes())
    return " ".join((pillion.__version__, total.hexdigest()[:_SHORT], *map(_version_of, _PACKAGES)))


def _version_of(package: str) -> str:
    try:
        return f"{package}-{metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return f"no-{package}"


@cache
def name_of_tools() -> str:
    """Gives a name for what counts instructions here: the cross compiler's version, and whether there is an emulator."""
    compiler = ARM_COMPILER.find()
    first = version((compiler,)).splitlines()[:1] if compiler else ["no cross compiler"]
    return f"{''.join(first)}, {'QEMU' if QEMU.find() else 'no QEMU'}"
