# SPDX-License-Identifier: Apache-2.0
"""Writes a project over an earlier one atomically, and keeps the user's files and edited files.

New files are staged in `.pillion-new` with a journal. Renaming that to `.pillion-commit` commits: an earlier
interruption keeps the old project, a later one is completed by the next command that opens the folder. Files
then move into place, the index (manifest.json) last. A folder lock excludes other writers."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pillion.errors import PillionError
from pillion.host_io.atomic_files import (
    MARK,
    MARK_FILE,
    Content,
    LazyContent,
    ensure_folder,
    errors_naming_path,
    file_sha256,
    folder_lock,
    read_text,
    remove_mark_last,
    write_parts,
)
from pillion.host_io.json_dataclasses import as_plain_data, object_from_json, parse_strict_json

NEW, COMMIT = ".pillion-new", ".pillion-commit"
JOURNAL, STAGED = "journal.json", "files"
_MOST_NAMES = 8
_MOST_PATH = 255
"""Longest file name in bytes, on every common file system."""


@dataclass(frozen=True)
class Listing:
    """Files of an earlier project with their hashes. Edits can be detected only if it is sealed."""

    files: Mapping[str, str]
    is_sealed: bool


@dataclass(frozen=True)
class Journal:
    """The changes of a project: hashes of the files before, empty for new ones. Changed files are in order."""

    changed: Mapping[str, str]
    removed: Mapping[str, str]

    def __post_init__(self) -> None:
        check_paths([*self.changed, *self.removed])


def sha256(content: Content) -> str:
    """Returns the hash of a content in hexadecimal."""
    if isinstance(content, LazyContent):
        return content.sha256
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def check_paths(paths: Iterable[str]) -> None:
    """Raises ValueError if a path could leave its folder, or names another file on other systems."""
    seen: dict[str, str] = {}
    for path in paths:
        parts = path.split("/")
        if not path.isprintable() or "\\" in path or ":" in path or {"", ".", ".."} & set(parts):
            raise ValueError(f"{path[:80]!r} is no path inside a project")
        if parts[0].startswith(".pillion-") or any(len(part.encode()) > _MOST_PATH for part in parts):
            raise ValueError(f"{path[:80]!r} is no name of a file of a project")
        twin = seen.setdefault(path.casefold(), path)
        if twin != path:
            raise ValueError(f"{path!r} and {twin!r} are one file where capital letters do not count")
    for path in seen:
        if any(str(parent) in seen for parent in PurePosixPath(path).parents):
            raise ValueError(f"{path!r} lies in a file")


@dataclass(frozen=True)
class ProjectWrite:
    """Files to write to a folder, `index` last. `earlier` finds the listing of an existing project. With `force`, edited
    files are overwritten."""

    folder: Path
    files: Mapping[str, Content]
    index: str
    earlier: Callable[[Path], Listing | None]
    force: bool = False

    def write(self) -> None:
        """Writes the files atomically."""
        folder = self.folder
        with errors_naming_path(folder):
            is_new = not folder.exists()
            _refuse_a_file(folder)
            ensure_folder(folder)
            try:
                with folder_lock(folder):
                    finish_interrupted_write(folder)
                    journal = self.allowed_changes()
                    self.stage(journal)
                    _apply_journal(folder, journal)
            except BaseException:
                if is_new:
                    with suppress(OSError):
                        folder.rmdir()
                raise

    def check(self) -> None:
        """Raises the errors that `write` would raise, without changing anything."""
        with errors_naming_path(self.folder):
            _refuse_a_file(self.folder)
            if self.folder.exists() and not (self.folder / COMMIT).exists():
                self.allowed_changes()

    def allowed_changes(self) -> Journal:
        """Returns the changes. Raises if files would be lost, unless forced."""
        listing = self.earlier(self.folder)
        _refuse_foreign(self.folder, listing)
        journal, lost = self._plan(listing or Listing({}, is_sealed=True))
        if lost and not self.force:
            raise _lost_files_error(self.folder, lost)
        _require_writable(self.folder, [*journal.changed, *journal.removed])
        return journal

    def _plan(self, listing: Listing) -> tuple[Journal, Mapping[str, str]]:
        """Plans the changes by comparing hashes of all files before and after. Returns them, and the files that would
        be lost, with reasons."""
        changed: dict[str, str] = {}
        lost: dict[str, str] = {}
        for path in sorted(self.files, key=lambda path: (path == self.index, path)):
            was = _hash_of(self.folder, path)
            if sha256(self.files[path]) == was:
                continue
            changed[path] = was
            expected = was if path == self.index else listing.files.get(path)
            reason = _loss_reason(self.folder / path, was, expected, listing.is_sealed) if was else ""
            if reason:
                lost[path] = reason
        new_paths = {path.casefold() for path in self.files}
        removed = {
            path: expected_hash
            for path, expected_hash in listing.files.items()
            if listing.is_sealed
            and path.casefold() not in new_paths
            and _hash_or_none(self.folder, path) == expected_hash
        }
        return Journal(changed, removed), lost

    def stage(self, journal: Journal) -> None:
        """Writes all new files to the staging folder, then commits it."""
        new = self.folder / NEW
        try:
            write_parts(new / MARK_FILE, MARK)
            for path in journal.changed:
                write_parts(new / STAGED / path, self.files[path])
                mode = _file_mode(self.folder / path)
                if stat.S_ISREG(mode):
                    os.chmod(new / STAGED / path, stat.S_IMODE(mode) & 0o777 | stat.S_IWUSR)
            write_parts(new / JOURNAL, json.dumps(as_plain_data(journal), indent=1) + "\n")
            os.rename(new, self.folder / COMMIT)
        except BaseException:
            with suppress(OSError):
                remove_mark_last(new)
            raise


def _require_writable(folder: Path, paths: Iterable[str]) -> None:
    """Raises if a read-only folder would interrupt the changes."""
    for directory in {(folder / path).parent for path in paths} | {folder}:
        if directory.exists() and not os.access(directory, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(directory))


def _refuse_a_file(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise PillionError(
            f"{folder} is a file",
            rule="-o is a .pte or .tflite file, or a folder for a C project",
            here="this name belongs to a file",
            help="choose another -o",
        )


def _refuse_foreign(folder: Path, listing: Listing | None) -> None:
    """Raises if a folder is not empty and holds no project of Pillion's."""
    entries = [entry.name for entry in folder.iterdir() if entry.name not in (NEW, COMMIT)]
    holds_ours = listing is not None and (
        not listing.is_sealed
        or any(_hash_or_none(folder, path) == wanted for path, wanted in listing.files.items() if wanted)
    )
    if entries and not holds_ours:
        raise PillionError(
            f"{folder} is not empty and was not written by Pillion",
            rule="only an empty folder or an earlier project (its manifest.json says so) is written to",
            here=f"it holds {', '.join(sorted(entries)[:5])}"
            + ("; none of the files that its manifest.json lists is there" if listing else ""),
            help="choose another -o, or empty the folder",
        )


def _loss_reason(file: Path, was: str, expected: str | None, is_sealed: bool) -> str:
    """Returns why a file is not as Pillion wrote it, or may not be written; empty if it may be replaced."""
    is_protected = not file.lstat().st_mode & stat.S_IWUSR
    if is_sealed and was == expected and not is_protected:
        return ""
    if file.is_symlink():
        return "a symbolic link"
    if not is_sealed:
        return "perhaps changed: manifest.json does not have the hashes that Pillion wrote"
    if expected is None:
        return "not written by Pillion"
    return "may not be written" if is_protected else "changed"


def _lost_files_error(folder: Path, lost: Mapping[str, str]) -> PillionError:
    listed = [f"{path}: {reason}" for path, reason in list(lost.items())[:_MOST_NAMES]]
    more = [f"and {len(lost) - _MOST_NAMES} more"] if len(lost) > _MOST_NAMES else []
    return PillionError(
        f"{len(lost)} {'file' if len(lost) == 1 else 'files'} of {folder} would be lost",
        rule="files are overwritten only if they are as Pillion wrote them",
        here="\n".join([*listed, *more]),
        help="--force overwrites them (force=True in Python); or move them away, or choose another -o",
    )


def _hash_or_none(folder: Path, path: str) -> str:
    """Returns `_hash_of`, or an empty string for paths that cannot hold a file."""
    try:
        return _hash_of(folder, path)
    except PillionError:
        return ""


def _hash_of(folder: Path, path: str) -> str:
    """Returns the hash of a file; empty if it is missing. Raises if the path is a folder, or behind a link."""
    for parent in reversed(PurePosixPath(path).parents[:-1]):
        mode = _file_mode(folder / parent)
        if mode and not stat.S_ISDIR(mode):
            what = "a symbolic link" if stat.S_ISLNK(mode) else "a file"
            raise _path_blocked_error(folder / parent, what, "a folder")
    mode = _file_mode(folder / path)
    if stat.S_ISLNK(mode):
        return f"link to {hashlib.sha256(os.fsencode(os.readlink(folder / path))).hexdigest()}"
    if mode and not stat.S_ISREG(mode):
        raise _path_blocked_error(
            folder / path, "a folder" if stat.S_ISDIR(mode) else "a pipe or a device", "a file"
        )
    return file_sha256(folder / path) if mode else ""


def _file_mode(path: Path) -> int:
    """Returns the file mode; 0 if the path is missing."""
    try:
        return path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _path_blocked_error(path: Path, actual: str, expected: str) -> PillionError:
    return PillionError(
        f"{path} is in the way",
        rule=f"{expected} of the project has this name",
        here=actual,
        help="move it away, or choose another -o",
    )


def _apply_journal(folder: Path, journal: Journal) -> None:
    """Moves staged files into place, skipping those moved already, so that it can be repeated."""
    staged = folder / COMMIT / STAGED
    for path in journal.changed:
        if (staged / path).exists():
            ensure_folder((folder / path).parent)
            os.replace(staged / path, folder / path)
    for path, expected_hash in journal.removed.items():
        with suppress(PillionError):  # it lies behind a link, where nothing is ours
            if _hash_of(folder, path) == expected_hash:
                os.unlink(folder / path)
            _remove_empty(folder, path)
    os.rename(folder / COMMIT, folder / NEW)
    _remove_pillion_folder(folder / NEW)


def _remove_empty(folder: Path, path: str) -> None:
    with suppress(OSError):
        for parent in PurePosixPath(path).parents[:-1]:
            (folder / parent).rmdir()


def finish_interrupted_write(folder: Path) -> None:
    """Completes an interrupted write after its commit, and discards one before it."""
    if _file_mode(folder / NEW):
        _remove_pillion_folder(folder / NEW)
    if not _file_mode(folder / COMMIT):
        return
    _require_pillion_folder(folder / COMMIT)
    journal = _read_journal(folder)
    for path, was in journal.changed.items():
        if _file_mode(folder / COMMIT / STAGED / path) and _hash_of(folder, path) not in ("", was):
            raise PillionError(
                f"{folder} was being written when that was stopped, and changed since",
                rule="a file that waits for its new content stays as it was",
                here=path,
                help=f"move {folder / path} away, then the same command again; "
                f"or remove {folder / COMMIT}, and compile the model again with --force",
            )
    _apply_journal(folder, journal)


def _read_journal(folder: Path) -> Journal:
    file = folder / COMMIT / JOURNAL
    try:
        return object_from_json(Journal, parse_strict_json(read_text(file, "journal")))
    except ValueError as error:
        raise PillionError(
            f"{folder} was being written when that was stopped, and cannot be finished",
            rule="its journal says what is to be done",
            here=f"{file}: {error}",
            help=f"remove {folder / COMMIT}, and compile the model again with --force",
        ) from None


def _require_pillion_folder(folder: Path) -> None:
    """Raises if a folder with Pillion's name was not made by Pillion."""
    if folder.is_symlink() or not folder.is_dir():
        raise _path_blocked_error(folder, "something else", "a folder")
    if any(folder.iterdir()) and not MARK.startswith(read_text(folder / MARK_FILE, "mark", len(MARK))):
        raise _path_blocked_error(folder, "a folder that Pillion has not made", "a folder")


def _remove_pillion_folder(folder: Path) -> None:
    """Removes a folder of Pillion's. Raises if it is not marked."""
    _require_pillion_folder(folder)
    remove_mark_last(folder)


def finish_write_before_reading(folder: Path) -> None:
    """Completes an interrupted write. Readers of a project call it first, so that they never see a mixture."""
    if _file_mode(folder / COMMIT):
        with errors_naming_path(folder), folder_lock(folder):
            finish_interrupted_write(folder)
