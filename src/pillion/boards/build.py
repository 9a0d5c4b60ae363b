# SPDX-License-Identifier: Apache-2.0
"""Compiles and links C, each step at most once for the same input.

Every object and linked file is cached under the hash of all its inputs. A file is written under a temporary name and renamed when
it is complete, so that any number of processes may build the same thing at the same time."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from pillion.boards.toolchain import compiler_version
from pillion.errors import PillionError
from pillion.host_io.atomic_files import file_sha256, read_whole, write_whole

# The most lines of a compiler's messages in an error.
_MOST_LINES = 12


@dataclass(frozen=True)
class Compiler:
    """A compiler and the flags of all its calls."""

    command: tuple[str, ...]
    flags: tuple[str, ...]
    machine: str = ""
    """The machine-specific meaning of flags such as `-march=native`, for the cache key."""

    def run(self, arguments: Sequence[str], folder: Path, doing: str) -> None:
        """Calls the compiler in a folder; raises with its messages if it fails."""
        command = [*self.command, *self.flags, *arguments]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode:
            complaint = "\n".join(done.stderr.strip().splitlines()[:_MOST_LINES])
            raise PillionError(
                f"{doing} failed",
                rule=" ".join(command),
                here=complaint,
                help=_compiler_error_help(done.stderr),
            )

    def key(self) -> bytes:
        """Returns everything about the compiler that can change its output, for the cache key."""
        return "\0".join((*self.command, compiler_version(self.command), self.machine, *self.flags)).encode()


@dataclass(frozen=True)
class Sources:
    """C files of one folder, the headers that they may include, and their include folders."""

    folder: Path
    files: tuple[str, ...]
    headers: tuple[str, ...]
    includes: tuple[str, ...] = ()


def compile_objects(compiler: Compiler, sources: Sources) -> list[Path]:
    """Returns the object files of the sources, in the same order."""
    headers = hash_parts(read_whole(sources.folder / name, "C header") for name in sources.headers)
    flags = (*compiler.flags, *(f"-I{folder}" for folder in sources.includes))
    compiler = replace(compiler, flags=flags)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(
            pool.map(lambda name: _compile_object(compiler, sources.folder, name, headers), sources.files)
        )


def _compile_object(compiler: Compiler, folder: Path, name: str, headers: str) -> Path:
    source = read_whole(folder / name, "C source")
    key = hash_parts((compiler.key(), headers.encode(), name.encode(), source))
    doing = f"compiling {name} of {folder}"
    return cached_file(
        key, Path(name).stem + ".o", lambda out: compiler.run(["-c", name, "-o", str(out)], folder, doing)
    )


def link_objects(
    compiler: Compiler, objects: Sequence[Path], folder: Path, scripts: Sequence[str], name: str
) -> Path:
    """Links objects into one file; `scripts` are files of the folder that the compiler's flags name."""
    contents = [read_whole(folder / script, "linker script") for script in scripts]
    binaries = [path.read_bytes() for path in objects]
    arguments = [str(path) for path in objects]
    doing = f"linking {folder}"

    def make(out: Path) -> None:
        # Libraries, which are among the flags, come after the objects that need them.
        Compiler(compiler.command, ()).run([*arguments, *compiler.flags, "-o", str(out)], folder, doing)

    return cached_file(hash_parts((compiler.key(), *binaries, *contents)), name, make)


def hash_parts(parts: Iterable[bytes]) -> str:
    """Returns one hash for several parts, including their boundaries."""
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "little"))
        total.update(part)
    return total.hexdigest()[:32]


def cache_folder() -> Path:
    """Returns the folder of built files: the variable PILLION_CACHE, else ~/.cache/pillion."""
    chosen = os.environ.get("PILLION_CACHE")
    return Path(chosen).absolute() if chosen else Path.home() / ".cache" / "pillion"


def cached_file(key: str, name: str, make: Callable[[Path], None]) -> Path:
    """Returns the file under a key, or makes it: `make` writes it to the given path. Its content's hash is
    stored next to it, and a changed file is made again."""
    file = cache_folder() / key[:2] / key / name
    seal = file.with_name(f"{name}.sha256")
    if not file.exists() or not seal.exists() or seal.read_bytes() != file_sha256(file).encode():
        with _temporary_cache_folder(file) as folder:
            temporary = Path(folder) / name
            make(temporary)
            checksum = file_sha256(temporary)
            os.replace(temporary, file)
            write_whole(seal, checksum.encode())
    _require_private_cache(cache_folder())
    return file


def _require_private_cache(cache: Path) -> None:
    """Raises if another user can write the cache, because its files are executed."""
    status = cache.stat()
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & stat.S_IWOTH):
        raise PillionError(
            "other users can write the cache folder",
            rule="programs in it are executed: it belongs to you, and only you can write it",
            here=f"{cache}: user {status.st_uid}, {stat.filemode(status.st_mode)}",
            help=f"chmod o-w {cache}, or name your own folder in the environment variable PILLION_CACHE",
        )


def _temporary_cache_folder(path: Path) -> tempfile.TemporaryDirectory[str]:
    try:
        cache_folder().parent.mkdir(parents=True, exist_ok=True)
        cache_folder().mkdir(mode=0o700, exist_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(dir=path.parent, prefix=".part-")
    except OSError as error:
        raise PillionError(
            "there is no place to keep compiled files",
            rule="the cache folder can be written",
            here=f"{cache_folder()}: {error.strerror}",
            help="name another folder in the environment variable PILLION_CACHE",
        ) from error


def is_overflow(complaint: str) -> bool:
    """Whether a linker complains of nothing but parts that are larger than memories."""
    return "overflowed by" in complaint and "undefined reference" not in complaint


def _compiler_error_help(complaint: str) -> str:
    if is_overflow(complaint):
        return "the model is too large for a memory of this board: choose another board, or a smaller model"
    return "the file has been changed, or the compiler is one that Pillion does not know"
