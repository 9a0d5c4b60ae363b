# SPDX-License-Identifier: Apache-2.0
"""Content hashes: of files, folders, Python files with their local imports, and Pillion itself."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pillion
from pillion.boards.toolchain import ARM_COMPILER, QEMU, compiler_version
from pillion.emitters.c.params_structs import kernel_folders
from pillion.errors import PillionError
from pillion.host_io.atomic_files import file_sha256, regular_file, suffix_of
from pillion.registry import REGISTRY, installed_version

_SHORT = 16
_PACKAGES = ("torch", "torchao", "numpy")
"""Packages whose version may change a program."""


def content_hash(path: Path) -> str:
    """Returns a hash of a file, or of all files in a folder with their names."""
    if not path.is_dir():
        return _file_hash(regular_file(path, "model or data"))
    total = hashlib.sha256()
    for file in sorted(entry for entry in path.rglob("*") if entry.is_file()):
        total.update(f"{file.relative_to(path).as_posix()}\0{_file_hash(file)}\n".encode())
    return total.hexdigest()[:_SHORT]


def _file_hash(path: Path) -> str:
    status = path.stat()
    return _cached_file_hash(path, status.st_mtime_ns, status.st_size, status.st_ino)


@cache
def _cached_file_hash(path: Path, changed: int, size: int, number: int) -> str:
    """Hashes a file, once per process while its size and modification time are unchanged."""
    return file_sha256(path)[:_SHORT]


def python_sources(path: Path) -> list[Path]:
    """Returns a Python file and, transitively, the local files that it imports."""
    folder, files, waiting = path.resolve().parent, [], [regular_file(path, ".py").resolve()]
    while waiting:
        file = waiting.pop()
        if file not in files:
            files.append(file)
            waiting += [
                imported for name in _imported_modules(file) for imported in _module_files_in(folder, name)
            ]
    return sorted(files)


def _imported_modules(file: Path) -> Iterator[str]:
    """Yields the modules that a file's import statements name, with their packages."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # running it reports the error
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level  # within a package, which is taken whole


def _module_files_in(folder: Path, name: str) -> Iterator[Path]:
    """Yields the files of a module in this folder; all files of a package."""
    first = name.split(".")[0]
    if first and (folder / first / "__init__.py").is_file():
        yield from sorted((folder / first).resolve().rglob("*.py"))
    elif first and (folder / f"{first}.py").is_file():
        yield (folder / f"{first}.py").resolve()


def files_of_spec(name: str) -> list[Path]:
    """Returns the files behind a path or `file.py:name`."""
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
def pillion_hash() -> str:
    """Returns a hash of this Pillion: version, source files, and packages that affect quantization."""
    total = hashlib.sha256()
    for root in (Path(pillion.__file__).parent, *kernel_folders()):
        for file in sorted(entry for entry in root.rglob("*") if entry.is_file() and entry.suffix != ".pyc"):
            total.update(f"{file.relative_to(root).as_posix()}\0".encode())
            total.update(file.read_bytes())
    packages = [f"{name}-{installed_version(name)}" for name in _PACKAGES]
    return " ".join((pillion.__version__, total.hexdigest()[:_SHORT], *packages, *REGISTRY.plugins))


@cache
def tools_hash() -> str:
    """Returns a hash of the tools that count instructions: the cross compiler's version, and whether there is an
    emulator."""
    compiler = ARM_COMPILER.find()
    first = compiler_version((compiler,)).splitlines()[:1] if compiler else ["no cross compiler"]
    return f"{''.join(first)}, {'QEMU' if QEMU.find() else 'no QEMU'}"
