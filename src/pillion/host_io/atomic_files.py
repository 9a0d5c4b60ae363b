# SPDX-License-Identifier: Apache-2.0
"""Atomic file writes: content goes to a staging folder next to the file, then is renamed into place."""

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
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pillion.errors import PillionError

try:
    import fcntl
except ImportError:  # Windows, where there are no such locks
    fcntl = None  # type: ignore[assignment]  # there is none on Windows

MODEL_FILES = "file.py:factory, .pt2, .onnx, .tflite or .pte file"
"""Model files that `-m` accepts, for messages."""

WEIGHT_FILES = "an .npz, .safetensors, .pt, .pth, .ckpt or .bin file"
"""Weight files that `--weights` accepts, for messages."""

OTHER_NAMES = {".lite": ".tflite"}
"""Equivalent suffixes."""
FORMS = (".pte", ".plm", ".tflite")
"""Suffixes of program files; other outputs are C project folders."""
NO_FOLDERS = (
    *(".a", ".bin", ".c", ".cc", ".cpp", ".elf", ".h", ".hex", ".o", ".py", ".so"),
    *(".csv", ".html", ".json", ".log", ".md", ".npy", ".npz", ".onnx", ".pt", ".pt2", ".pth"),
    *(".safetensors", ".svg", ".txt", ".yaml", ".zip"),
)
"""Suffixes that are not folder names."""


def suffix_of(path: str | Path) -> str:
    """Returns the last suffix in lower case and canonical form: `.pt2` for `Net.PT2`, `.tflite` for `net.lite`."""
    suffix = Path(path).suffix.lower()
    return OTHER_NAMES.get(suffix, suffix)


def output_suffix(output: Path) -> str:
    """Returns the output's suffix if it is in `FORMS`, or an empty string for a folder. Raises for other file
    suffixes."""
    form = suffix_of(output)
    if form in NO_FOLDERS:
        raise PillionError(
            f"{output} cannot be written",
            rule="a program is a .pte, .tflite or .plm file, or a folder with a C project",
            here=f"suffix {output.suffix}",
            help=f"{output.stem}/ or {output.stem}.pte",
        )
    return form if form in FORMS else ""


@dataclass(frozen=True, eq=False)
class LazyContent:
    """The content of a large file, produced in parts so that memory holds one part at a time."""

    parts: Callable[[], Iterable[bytes]]
    """Returns the same bytes at each call."""

    @cached_property
    def sha256(self) -> str:
        """The content's hash in hexadecimal, cached because producing the content is slow."""
        total = hashlib.sha256()
        for part in self.parts():
            total.update(part)
        return total.hexdigest()

    def __bytes__(self) -> bytes:
        return b"".join(self.parts())

    def __str__(self) -> str:
        return bytes(self).decode()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LazyContent) and bytes(self) == bytes(other)

    __hash__ = None  # type: ignore[assignment]  # as of all that is compared by a content made anew each time


Content = str | bytes | LazyContent
"""The content of a file."""


def file_sha256(path: Path) -> str:
    """Returns the hash of a file in hexadecimal, read in parts."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            total.update(part)
    return total.hexdigest()


def content_chunks(content: Content) -> Iterable[bytes]:
    """Yields the bytes of a content in parts."""
    if isinstance(content, LazyContent):
        return content.parts()
    return (content.encode() if isinstance(content, str) else content,)


def write_parts(path: Path, content: Content) -> None:
    """Writes a file and creates its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.writelines(content_chunks(content))


MOST_BYTES = 2**31
"""Largest file that is read: FlatBuffers offsets have 31 bits."""

_KINDS: Mapping[str, Callable[[int], bool]] = {
    "a folder": stat.S_ISDIR,
    "a named pipe": stat.S_ISFIFO,
    "a socket": stat.S_ISSOCK,
    "a device": lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode),
}


def regular_file(path: Path, kind: str, most: int | None = None) -> Path:
    """Returns the path if it is a regular, readable file of a kind (`.pte`), so no pipe that never ends."""
    try:
        status = path.stat()
        is_open = os.access(path, os.R_OK)
    except (OSError, ValueError) as error:  # a path with a zero byte is a ValueError
        is_missing = isinstance(error, FileNotFoundError)
        reason = "no file of this name" if is_missing else getattr(error, "strerror", None) or error
        raise _unreadable_file_error(path, kind, f"{reason}, in {Path.cwd()}") from None
    if not stat.S_ISREG(status.st_mode):
        raise _unreadable_file_error(
            path, kind, next((n for n, test in _KINDS.items() if test(status.st_mode)), "no file")
        )
    if not is_open:
        raise _unreadable_file_error(path, kind, os.strerror(errno.EACCES))
    if status.st_size > (most or MOST_BYTES):
        raise _unreadable_file_error(
            path, kind, f"{status.st_size:,} bytes, and {most or MOST_BYTES:,} are the most"
        )
    return path


def _unreadable_file_error(path: Path, kind: str, here: str) -> PillionError:
    return PillionError(
        f"`{path}` cannot be read",
        rule=f"the path of a {kind} file",
        here=here,
        help="look at the path, and whether you may read the file",
    )


def read_whole(path: Path, kind: str, most: int | None = None) -> bytes:
    """Reads a file of a kind (`.pte`), at most `most` bytes."""
    try:
        return regular_file(path, kind, most).read_bytes()
    except OSError as error:
        raise _unreadable_file_error(path, kind, error.strerror or str(error)) from None


def read_text(path: Path, kind: str, most: int | None = None) -> str:
    """Reads a text file of a kind, at most `most` bytes."""
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
    """Writes a file atomically. A symbolic link stays and its target is written; an existing file's permissions
    are kept."""
    with errors_naming_path(path):
        path = resolve_links(path)
        status = _stat_or_none(path)
        if status is not None:
            _require_replaceable(path, status.st_mode)
        with _staging_folder(ensure_folder(path.parent), path.name) as folder:
            fresh = folder / "new"
            fresh.write_bytes(content)
            if status is not None:
                _copy_permissions(fresh, status)
            os.replace(fresh, path)


def resolve_links(path: Path) -> Path:
    """Returns a path with all links followed. Users of the path report a link cycle."""
    return Path(os.path.realpath(path))


def _stat_or_none(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _require_replaceable(path: Path, mode: int) -> None:
    """Raises if the existing path is not a regular file, or is write-protected."""
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


def _copy_permissions(fresh: Path, status: os.stat_result) -> None:
    """Copies permissions and, if allowed, the owner."""
    with suppress(OSError, AttributeError):
        os.chown(fresh, status.st_uid, status.st_gid)
    os.chmod(fresh, stat.S_IMODE(status.st_mode) & 0o777)


MARK_FILE = "README"
MARK = "Pillion is writing here. What a killed run leaves is removed by the next one.\n"
"""Content of the file that marks a folder as Pillion's."""
LOCK_SECONDS = 20.0


@contextmanager
def _staging_folder(parent: Path, name: str) -> Iterator[Path]:
    """Creates a staging folder next to a file and removes it at the end, along with folders of killed runs."""
    prefix = f".{name[:_MOST_PREFIX]}.pillion-"
    for left in parent.glob(f"{glob.escape(prefix)}*"):
        _remove_abandoned_staging(left)
    with ExitStack() as stack:
        folder = _locked_folder(parent, prefix, stack)
        try:
            (folder / MARK_FILE).write_text(MARK, "utf-8")
            yield folder
        finally:
            with suppress(OSError):
                remove_mark_last(folder)


def _locked_folder(parent: Path, prefix: str, stack: ExitStack) -> Path:
    """Creates and locks a folder; repeats if another run removes it in between."""
    while True:
        folder = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
        with suppress(FileNotFoundError), ExitStack() as lock:
            lock.enter_context(folder_lock(folder))
            if folder.exists():
                stack.push(lock.pop_all())
                return folder


def remove_mark_last(folder: Path) -> None:
    """Removes a folder of Pillion's, its mark last: an interrupted removal can be resumed."""
    for entry in folder.iterdir():
        if entry.name != MARK_FILE:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    (folder / MARK_FILE).unlink(missing_ok=True)
    folder.rmdir()


_MOST_PREFIX = 40
"""Longest part of the file's name in the staging folder's name."""


def _remove_abandoned_staging(folder: Path) -> None:
    """Removes a staging folder that no process has locked, if its content is Pillion's."""
    with suppress(OSError, PillionError):
        entries = [entry.name for entry in folder.iterdir()]
        is_ours = not folder.is_symlink() and set(entries) <= {MARK_FILE, "new"}
        if is_ours and (not entries or MARK.startswith(read_text(folder / MARK_FILE, "mark", len(MARK)))):
            with folder_lock(folder, waits=False):
                remove_mark_last(folder)


@contextmanager
def folder_lock(folder: Path, *, waits: bool = True) -> Iterator[None]:
    """Holds an exclusive lock on a folder. The system releases it when the process ends."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _acquire_lock(descriptor, folder, LOCK_SECONDS if waits else 0.0)
        yield
    finally:
        os.close(descriptor)


def _acquire_lock(descriptor: int, folder: Path, seconds: float) -> None:
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


def ensure_folder(folder: Path) -> Path:
    """Creates the folder if it is missing, and returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def errors_naming_path(path: Path) -> Iterator[None]:
    """Turns system errors into an error that names the path."""
    try:
        yield
    except OSError as error:
        raise PillionError(
            f"{path} cannot be written",
            rule="a place where you may write, on a disk with room",
            here=f"{error.strerror or error}: {error.filename or path}",
            help="choose another place",
        ) from None
