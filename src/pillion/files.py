# SPDX-License-Identifier: Apache-2.0
"""Outputs are there whole or not at all: they are written beside their place and then moved to it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
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


@dataclass(frozen=True, eq=False)
class Written:
    """The content of a large file, of which there is never more in memory than the part that is being written."""

    parts: Callable[[], Iterable[bytes]]
    """The same bytes at each call."""

    def __bytes__(self) -> bytes:
        return b"".join(self.parts())

    def __str__(self) -> str:
        return bytes(self).decode()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Written) and bytes(self) == bytes(other)

    __hash__ = None  # type: ignore[assignment]  # as of all that is compared by a content made anew each time


Content = str | bytes | Written
"""What a file gets."""


def parts_of(content: Content) -> Iterable[bytes]:
    """The bytes of a content, one part after another."""
    if isinstance(content, Written):
        return content.parts()
    return (content.encode() if isinstance(content, str) else content,)


def put(path: Path, content: Content) -> None:
    """Writes a file and the folders that it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.writelines(parts_of(content))


def read_whole(path: Path, kind: str) -> bytes:
    """A file of some kind (`.pte`)."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise PillionError(
            f"`{path}` cannot be read",
            rule=f"the path of a {kind} file",
            here=f"{error.strerror or error}, in {Path.cwd()}",
            help="look at the path, and whether you may read the file",
        ) from None


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
    with writing(path), tempfile.TemporaryDirectory(dir=made(path.parent), prefix=f".{path.name}-") as folder:
        fresh = Path(folder) / path.name
        fresh.write_bytes(content)
        os.replace(fresh, path)


def write_folder(folder: Path, files: Mapping[str, Content], is_ours: Callable[[Path], bool]) -> None:
    """A folder. What was there before is replaced if it was empty or is ours."""
    folder = folder.resolve()
    with writing(folder):
        refuse_foreign(folder, is_ours)
        with tempfile.TemporaryDirectory(dir=made(folder.parent), prefix=f".{folder.name}-") as temporary:
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
