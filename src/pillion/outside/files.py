# SPDX-License-Identifier: Apache-2.0
"""Outputs are there whole or not at all: they are written beside their place and then moved to it."""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pillion.errors import PillionError

try:
    import fcntl
except ImportError:  # Windows, where there are no such locks
    fcntl = None  # type: ignore[assignment]  # there is none on Windows

MODEL_FILES = "file.py:factory, a .pt2, .tflite or .pte file"
"""What `-m` takes beside the names of the zoo."""

WEIGHT_FILES = "an .npz, .safetensors, .pt, .pth, .ckpt or .bin file"
"""What `--weights` takes."""

OTHER_NAMES = {".lite": ".tflite"}
"""Ends of names that mean the same as others."""
FORMS = (".pte", ".tflite")
"""Files that programs are written to; everything else is the folder of a C project."""
NO_FOLDERS = (
    *(".a", ".bin", ".c", ".cc", ".cpp", ".elf", ".h", ".hex", ".o", ".py", ".so"),
    *(".json", ".npy", ".npz", ".onnx", ".pt", ".pt2", ".pth", ".safetensors", ".zip"),
)
"""Ends of names that are evidently not those of folders."""


def suffix_of(path: str | Path) -> str:
    """Gives the last suffix of a path in small letters, under its usual name: `.pt2` for `Net.PT2`, `.tflite` for `net.lite`."""
    suffix = Path(path).suffix.lower()
    return OTHER_NAMES.get(suffix, suffix)


def form_of(output: Path) -> str:
    """Gives one of `FORMS` by an output's name, or nothing for a folder. Raises where the name is that of another form."""
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

    @cached_property
    def sha256(self) -> str:
        """The hash of the content, in hexadecimal digits: to make a large content takes longer than to keep this."""
        total = hashlib.sha256()
        for part in self.parts():
            total.update(part)
        return total.hexdigest()

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
    """Gives the bytes of a content, one part after another."""
    if isinstance(content, Written):
        return content.parts()
    return (content.encode() if isinstance(content, str) else content,)


def put(path: Path, content: Content) -> None:
    """Writes a file and the folders that it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.writelines(parts_of(content))


MOST_BYTES = 2**31
"""The largest file that is read: its tables point with 31 bits, and no model of this size runs on a microcontroller."""

_KINDS: Mapping[str, Callable[[int], bool]] = {
    "a folder": stat.S_ISDIR,
    "a named pipe": stat.S_ISFIFO,
    "a socket": stat.S_ISSOCK,
    "a device": lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode),
}


def regular_file(path: Path, kind: str, most: int | None = None) -> Path:
    """Gives the path, if it is that of a file of some kind (`.pte`) that may be read: not of a pipe, which might never end."""
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
        raise _unreadable(path, kind, f"{found.st_size:,} bytes, and {most or MOST_BYTES:,} are the most")
    return path


def _unreadable(path: Path, kind: str, here: str) -> PillionError:
    return PillionError(
        f"`{path}` cannot be read",
        rule=f"the path of a {kind} file",
        here=here,
        help="look at the path, and whether you may read the file",
    )


def read_whole(path: Path, kind: str, most: int | None = None) -> bytes:
    """Reads the bytes of a file of some kind (`.pte`), so many at most."""
    try:
        return regular_file(path, kind, most).read_bytes()
    except OSError as error:
        raise _unreadable(path, kind, error.strerror or str(error)) from None


def read_text(path: Path, kind: str, most: int | None = None) -> str:
    """Reads a file of text of some kind, so much of it at most."""
    try:
        return read_whole(path, kind, most).decode()
    except UnicodeDecodeError as error:
        raise PillionError(
            f"`{path}` is not text",
            rule=f"a {kind} is written in UTF-8",
            here=f"byte {error.object[error.start]:#04x} at {error.start}: {error.reason}",
            help="compile the model again, if `pillion compile` wrote it",
        ) from None


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file, whole: it is written in a folder beside and then moved to its place. A link stays, and what it leads to is
    written; a file that was there gives its permissions."""
    with writing(path):
        path = resolved(path)
        status = _status(path)
        if status is not None:
            _want_replaceable(path, status.st_mode)
        with _staging(made(path.parent), path.name) as folder:
            fresh = folder / "new"
            fresh.write_bytes(content)
            if status is not None:
                _give_rights(fresh, status)
            os.replace(fresh, path)


def resolved(path: Path) -> Path:
    """Gives a path with all links followed; a circle of links is found by whoever uses the path."""
    return Path(os.path.realpath(path))


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _want_replaceable(path: Path, mode: int) -> None:
    """Raises where what is there is not a file, or is protected."""
    if not stat.S_ISREG(mode):
        what = "folder" if stat.S_ISDIR(mode) else "pipe, device or socket"
        raise PillionError(
            f"{path} is a {what}",
            rule="the name of a file",
            here=f"a {what}, which cannot be replaced by a file",
            help="choose another name",
        )
    if not mode & stat.S_IWUSR:
        raise PillionError(
            f"{path} is protected",
            rule="a file is replaced if its owner may write it",
            here=f"mode {stat.filemode(mode)}",
            help="chmod u+w it, or choose another name",
        )


def _give_rights(fresh: Path, status: os.stat_result) -> None:
    """Owner, as far as the system lets us, and permissions."""
    with suppress(OSError, AttributeError):
        os.chown(fresh, status.st_uid, status.st_gid)
    os.chmod(fresh, stat.S_IMODE(status.st_mode) & 0o777)


MARK_FILE = "README"
MARK = "Pillion is writing here. What a killed run leaves is removed by the next one.\n"
"""What makes a folder of ours known."""
LOCK_SECONDS = 20.0


@contextmanager
def _staging(parent: Path, name: str) -> Iterator[Path]:
    """A folder beside the file of a name, which goes again, and with it those that killed runs have left."""
    prefix = f".{name[:_MOST_PREFIX]}.pillion-"
    for left in parent.glob(f"{glob.escape(prefix)}*"):
        _remove_left(left)
    folder = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
    try:
        with locked(folder):
            (folder / MARK_FILE).write_text(
                MARK, "utf-8"
            )  # without it nobody removes the folder: locked first
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_MOST_PREFIX = 40
"""How much of a file's name is kept, which may be as long as names can be."""


def _remove_left(folder: Path) -> None:
    """Removes a folder beside a file that holds what ours hold, and whose process has ended: nobody has locked it."""
    with suppress(OSError, PillionError):
        is_ours = not folder.is_symlink() and {entry.name for entry in folder.iterdir()} <= {MARK_FILE, "new"}
        if is_ours and read_text(folder / MARK_FILE, "mark", len(MARK)) == MARK:
            with locked(folder, seconds=0):
                shutil.rmtree(folder)


@contextmanager
def locked(folder: Path, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Holds a lock on a folder: nobody else is in here with the same one. The lock goes with its process, however that ends."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _lock(descriptor, folder, seconds)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise PillionError(
                    f"{folder} is being written by another process",
                    rule="one at a time",
                    here=f"it was waited for {seconds:g} s",
                    help="wait until that has ended, or choose another -o",
                ) from None
            time.sleep(0.05)
        except OSError:  # a file system without locks
            return
        else:
            return


def made(folder: Path) -> Path:
    """Gives the folder, which is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


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
