# SPDX-License-Identifier: Apache-2.0
"""Outputs are there whole or not at all: they are written beside their place and then moved to it."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pillion.errors import PillionError

MODEL_FILES = "file.py:factory, a .pt2, .tflite or .pte file"
"""What `-m` takes beside the names of the zoo."""

FORMS = (".pte", ".tflite")
"""Files that programs are written to; everything else is the folder of a C project."""
NO_FOLDERS = (
    *(".a", ".bin", ".c", ".cc", ".cpp", ".elf", ".h", ".hex", ".o", ".py", ".so"),
    *(".json", ".npy", ".npz", ".onnx", ".pt", ".pt2", ".pth", ".safetensors", ".zip"),
)
"""Ends of names that are evidently not those of folders."""


def suffix_of(path: str | Path) -> str:
    """In small letters."""
    return Path(path).suffix.lower()


def form_of(output: Path) -> str:
    """One of `FORMS`, or nothing for a folder. Raises where the name is that of another form."""
    form = suffix_of(output)
    if form in NO_FOLDERS:
        raise PillionError(
            f"{output} cannot be written",
            rule="a program is a .pte or .tflite file, or a folder with a C project",
            here=f"suffix {output.suffix}",
            help=f"{output.stem}/ or {output.stem}.pte",
        )
    return form if form in FORMS else ""


def put(path: Path, content: str | bytes) -> None:
    """Writes a file and the folders that it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


UNFINISHED = ".pillion-"
"""With which the names of folders begin that hold what is not written yet: names of outputs may have all 255 bytes."""
MOST_BYTES = 2**31
"""Of a file that is read: its tables point with 31 bits, and no model of this size runs on a microcontroller."""

_KINDS: Mapping[str, Callable[[int], bool]] = {
    "a folder": stat.S_ISDIR,
    "a named pipe": stat.S_ISFIFO,
    "a socket": stat.S_ISSOCK,
    "a device": lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode),
}


def regular_file(path: Path, kind: str, most: int | None = None) -> Path:
    """The path, if it is that of a file of some kind (`.pte`) that may be read: not of a pipe, which might never end."""
    try:
        found = path.stat()
        is_open = os.access(path, os.R_OK)
    except (OSError, ValueError) as error:  # a path with a zero byte is a ValueError
        is_missing = isinstance(error, FileNotFoundError)
        reason = "no file of this name" if is_missing else getattr(error, "strerror", None) or error
        raise _unreadable(path, kind, f"{reason}, in {Path.cwd()}") from None
    if not stat.S_ISREG(found.st_mode):
        raise _unreadable(
            path, kind, next((n for n, test in _KINDS.items() if test(found.st_mode)), "no file")
        )
    if not is_open:
        raise _unreadable(path, kind, os.strerror(errno.EACCES))
    if found.st_size > (most or MOST_BYTES):
        raise _unreadable(path, kind, f"{found.st_size:,} bytes")
    return path


def _unreadable(path: Path, kind: str, here: str) -> PillionError:
    return PillionError(
        f"`{path}` cannot be read",
        rule=f"the path of a {kind} file, of at most {MOST_BYTES >> 30} GiB",
        here=here,
        help="look at the path, and whether you may read the file",
    )


def read_whole(path: Path, kind: str, most: int | None = None) -> bytes:
    """The bytes of a file of some kind (`.pte`), so many at most."""
    try:
        return regular_file(path, kind, most).read_bytes()
    except OSError as error:
        raise _unreadable(path, kind, error.strerror or str(error)) from None


def write_whole(path: Path, content: bytes) -> None:
    """A file."""
    if path.is_dir():
        raise PillionError(
            f"{path} is a folder",
            rule="the name of a file",
            here=f"a folder with {len(list(path.iterdir()))} entries",
            help="choose another name",
        )
    path = path.resolve()
    with writing(path), tempfile.TemporaryDirectory(dir=made(path.parent), prefix=UNFINISHED) as folder:
        fresh = Path(folder) / path.name
        fresh.write_bytes(content)
        os.replace(fresh, path)


def write_folder(folder: Path, files: Mapping[str, str | bytes], is_ours: Callable[[Path], bool]) -> None:
    """A folder. What was there before is replaced if it was empty or is ours."""
    folder = folder.resolve()
    with writing(folder):
        refuse_foreign(folder, is_ours)
        with tempfile.TemporaryDirectory(dir=made(folder.parent), prefix=UNFINISHED) as temporary:
            fresh = Path(temporary) / "new"
            for path, content in files.items():
                put(fresh / path, content)
            if folder.exists():
                os.replace(folder, Path(temporary) / "old")
            os.replace(fresh, folder)


def made(folder: Path) -> Path:
    """The folder, which is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def refuse_foreign(folder: Path, is_ours: Callable[[Path], bool]) -> None:
    """Raises where something else would be overwritten."""
    if folder.exists() and not folder.is_dir():
        raise PillionError(
            f"{folder} is a file",
            rule="-o is a .pte or .tflite file, or a folder for a C project",
            here="this name belongs to a file",
            help="choose another -o",
        )
    if folder.exists() and any(folder.iterdir()) and not is_ours(folder):
        raise PillionError(
            f"{folder} is not empty and was not written by Pillion",
            rule="only an empty folder or an earlier project (its manifest.json says so) is replaced",
            here=f"it holds {', '.join(sorted(entry.name for entry in folder.iterdir())[:5])}",
            help="choose another -o, or empty the folder",
        )


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what the system refuses into an error that names the path."""
    try:
        yield
    except OSError as error:
        raise PillionError(
            f"{path} cannot be written",
            rule="a place where you may write, on a disk with room",
            here=f"{error.strerror or error}: {error.filename or path}",
            help="choose another place",
        ) from None
