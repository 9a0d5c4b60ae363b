# SPDX-License-Identifier: Apache-2.0
"""The origin of a report: versions, hashes, and the command that reproduces it."""

from __future__ import annotations

import hashlib
import platform
import sys
from pathlib import Path

from pillion import __version__
from pillion.boards.toolchain import ARM_COMPILER, QEMU, compiler_version
from pillion.compiled_program import CompiledProgram
from pillion.host_io.atomic_files import file_sha256
from pillion.ir.text import to_text
from pillion.registry import installed_version
from pillion.report.report_facts import OriginFacts
from pillion.report.report_options import ReportOptions

PACKAGES = ("torch", "torchao", "numpy", "flatbuffers")
MOST_BYTES = 1 << 30
"""Largest data that is hashed."""


def provenance_facts(subject: CompiledProgram, asked: ReportOptions) -> OriginFacts:
    """Returns the facts that reproduce the report and identify the program."""
    hashes = {
        what: _hash_of_path(path) for what, path in (asked.named_files or {}).items() if _is_small(path)
    }
    hashes["the compiled graph, weights included"] = _sha256(
        to_text(subject.graph).encode("utf-8", "surrogatepass")
    )
    if subject.file is not None:
        hashes["the .pte file"] = _sha256(bytes(subject.file.raw))
    return OriginFacts(asked.command, package_versions(), {k: v for k, v in hashes.items() if v})


def package_versions() -> dict[str, str]:
    """Returns the versions of Pillion and the packages it uses."""
    by_name = {"pillion": __version__, "python": platform.python_version()}
    by_name |= {name: found for name in PACKAGES if (found := installed_version(name)) is not None}
    for tool in (ARM_COMPILER, QEMU):
        path = tool.find()
        if path:
            by_name[tool.names[0]] = (compiler_version((path,)).splitlines() or [""])[0]
    return {**by_name, "system": f"{platform.system()} {platform.machine()}", "byte order": sys.byteorder}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _is_small(path: Path) -> bool:
    files = [f for f in path.iterdir() if f.is_file()] if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files) <= MOST_BYTES


def _hash_of_path(path: Path) -> str:
    """Returns the hash of a file, or of all files in a folder with their names; empty if it is missing."""
    if path.is_dir():
        total = hashlib.sha256()
        for file in sorted(p for p in path.iterdir() if p.is_file()):
            total.update(f"{file.name}\0{_hash_of_path(file)}\n".encode("utf-8", "replace"))
        return total.hexdigest()
    return file_sha256(path) if path.is_file() else ""
