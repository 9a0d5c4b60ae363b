# SPDX-License-Identifier: Apache-2.0
"""Compile and link C, each step at most once for the same text.

Every object and every linked file is kept under the hash of all that went into it. A file is written under a
name of its own and renamed when it is whole, so any number of processes may build the same thing at the same
time.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from pillion.boards.toolchain import version
from pillion.errors import PillionError
from pillion.outside.files import read_whole

# As much of a compiler's complaint as is worth showing.
_MOST_LINES = 12


@dataclass(frozen=True)
class Compiler:
    """A compiler, and the flags for whatever it compiles or links."""

    command: tuple[str, ...]
    flags: tuple[str, ...]
    machine: str = ""
    """What flags mean on this machine, where they mean another thing on another one: `-march=native` does."""

    def run(self, arguments: Sequence[str], folder: Path, doing: str) -> None:
        """Call the compiler in a folder; its complaints become the error."""
        command = [*self.command, *self.flags, *arguments]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode:
            complaint = "\n".join(done.stderr.strip().splitlines()[:_MOST_LINES])
            raise PillionError(
                f"{doing} failed", rule=" ".join(command), here=complaint, help=_help(done.stderr)
            )

    def key(self) -> bytes:
        """What of the compiler can change its output, for the name under which the output is kept."""
        return "\0".join((*self.command, version(self.command), self.machine, *self.flags)).encode()


@dataclass(frozen=True)
class Sources:
    """C files of one folder, the headers that they may include, and the folders in which those are looked for."""

    folder: Path
    files: tuple[str, ...]
    headers: tuple[str, ...]
    includes: tuple[str, ...] = ()


def compile_objects(compiler: Compiler, sources: Sources) -> list[Path]:
    """Compiles each source, and gives the object files in the same order."""
    headers = digest(read_whole(sources.folder / name, "C header") for name in sources.headers)
    flags = (*compiler.flags, *(f"-I{folder}" for folder in sources.includes))
    compiler = replace(compiler, flags=flags)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda name: _object(compiler, sources.folder, name, headers), sources.files))


def _object(compiler: Compiler, folder: Path, name: str, headers: str) -> Path:
    source = read_whole(folder / name, "C source")
    key = digest((compiler.key(), headers.encode(), name.encode(), source))
    doing = f"compiling {name} of {folder}"
    return kept(
        key, Path(name).stem + ".o", lambda out: compiler.run(["-c", name, "-o", str(out)], folder, doing)
    )


def link(
    compiler: Compiler, objects: Sequence[Path], folder: Path, scripts: Sequence[str], name: str
) -> Path:
    """Links objects into one file; `scripts` are files of the folder that the compiler's flags name."""
    contents = [read_whole(folder / script, "linker script") for script in scripts]
    made = [path.read_bytes() for path in objects]
    arguments = [str(path) for path in objects]
    doing = f"linking {folder}"

    def make(out: Path) -> None:
        # Libraries, which are among the flags, come after the objects that need them.
        Compiler(compiler.command, ()).run([*arguments, *compiler.flags, "-o", str(out)], folder, doing)

    return kept(digest((compiler.key(), *made, *contents)), name, make)


def digest(parts: Iterable[bytes]) -> str:
    """Makes one name for several parts; where one ends and the next begins counts."""
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "little"))
        total.update(part)
    return total.hexdigest()[:32]


def cache_folder() -> Path:
    """Where built files are kept: the variable PILLION_CACHE, else ~/.cache/pillion."""
    chosen = os.environ.get("PILLION_CACHE")
    return Path(chosen).absolute() if chosen else Path.home() / ".cache" / "pillion"


def kept(key: str, name: str, make: Callable[[Path], None]) -> Path:
    """Gives the file that was made under a key, or makes it; `make` writes it to the path that it is handed."""
    file = cache_folder() / key[:2] / key / name
    if not file.exists():
        with _folder_beside(file) as folder:
            make(Path(folder) / name)
            os.replace(Path(folder) / name, file)
    return file


def _folder_beside(kept: Path) -> tempfile.TemporaryDirectory[str]:
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(dir=kept.parent, prefix=".part-")
    except OSError as error:
        raise PillionError(
            "there is no place to keep compiled files",
            rule="the cache folder can be written",
            here=f"{cache_folder()}: {error.strerror}",
            help="name another folder in the environment variable PILLION_CACHE",
        ) from error


def _help(complaint: str) -> str:
    if "overflowed by" in complaint:
        return "the model is too large for a memory of this board: choose another board, or a smaller model"
    return "the file has been changed, or the compiler is one that Pillion does not know"
