# SPDX-License-Identifier: Apache-2.0
"""Writes a project over an earlier one and leaves alone what is not ours: files of the user, and ours that were changed.

All new files are first written to `.pillion-new` in the folder, with a journal of what goes where. Renaming that to `.pillion-commit` is
the moment at which the new project is there: whatever is stopped before leaves the old one, whatever is stopped after is finished
by the next command that reads or writes the folder. The files then move to their places one by one, the index (manifest.json) last.
A lock on the folder, which the system takes back from dead processes, keeps two writers apart."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pillion.errors import PillionError
from pillion.outside.declared import build, parse, plain
from pillion.outside.files import (
    MARK,
    MARK_FILE,
    Content,
    Written,
    locked,
    made,
    put,
    read_text,
    resolved,
    writing,
)

NEW, COMMIT = ".pillion-new", ".pillion-commit"
JOURNAL, STAGED = "journal.json", "files"
_MOST_NAMES = 8
_MOST_PATH = 255
"""Bytes in a name, on every file system in use."""


@dataclass(frozen=True)
class Listing:
    """The files that an earlier project says it has, by their hashes. Only of a sealed one can it be told which were changed."""

    files: Mapping[str, str]
    is_sealed: bool


@dataclass(frozen=True)
class Change:
    """A file that gets another content: the hash that it will have, and the one that it has (none if it is not there)."""

    new: str
    was: str


@dataclass(frozen=True)
class Journal:
    """The list of all changes of a project, in the order in which they are made, and the files that go, by their hashes."""

    changes: Mapping[str, Change]
    removed: Mapping[str, str]

    def __post_init__(self) -> None:
        check_paths([*self.changes, *self.removed])


def sha256(content: Content) -> str:
    """Gives the hash of a file's content, in hexadecimal digits."""
    if isinstance(content, Written):
        return content.sha256
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def check_paths(paths: Iterable[str]) -> None:
    """Raises ValueError where a path could lead out of its folder, or means another file elsewhere than here."""
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
class Plan:
    """The plan of writing a project: what becomes of each file of a folder, and which would be lost by it, with the reasons."""

    journal: Journal
    lost: Mapping[str, str]


def write_project(
    folder: Path,
    files: Mapping[str, Content],
    index: str,
    earlier: Callable[[Path], Listing | None],
    force: bool,
) -> None:
    """Writes the files, whole, with `index` as the last. `earlier` finds the listing of the project that is there, if one is. With
    `force`, files that are not as we wrote them are overwritten."""
    folder = resolved(folder)
    with writing(folder):
        is_new = not folder.exists()
        _refuse_a_file(folder)
        made(folder)
        try:
            with locked(folder):
                finish(folder)
                journal = _agreed(folder, files, index, earlier, force)
                _stage(folder, journal, files)
                _apply(folder, journal)
        except BaseException:
            if is_new:
                with suppress(OSError):
                    folder.rmdir()
            raise


def check_project(
    folder: Path,
    files: Mapping[str, Content],
    index: str,
    earlier: Callable[[Path], Listing | None],
    force: bool,
) -> None:
    """Raises what `write_project` would raise, and touches nothing."""
    folder = resolved(folder)
    with writing(folder):
        _refuse_a_file(folder)
        if folder.exists() and not (folder / COMMIT).exists():
            _agreed(folder, files, index, earlier, force)


def _agreed(
    folder: Path,
    files: Mapping[str, Content],
    index: str,
    earlier: Callable[[Path], Listing | None],
    force: bool,
) -> Journal:
    """The changes, if nothing is lost by them, or that is wanted."""
    listing = earlier(folder)
    refuse_foreign(folder, listing)
    plan = _plan(folder, files, index, listing or Listing({}, is_sealed=True))
    if plan.lost and not force:
        raise _would_be_lost(folder, plan.lost)
    _want_writable(folder, [*plan.journal.changes, *plan.journal.removed])
    return plan.journal


def _want_writable(folder: Path, paths: Iterable[str]) -> None:
    """Raises where a change would stop half-way because of a folder that may not be written."""
    for place in {(folder / path).parent for path in paths} | {folder}:
        if place.exists() and not os.access(place, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))


def _refuse_a_file(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise PillionError(
            f"{folder} is a file",
            rule="-o is a .pte or .tflite file, or a folder for a C project",
            here="this name belongs to a file",
            help="choose another -o",
        )


def refuse_foreign(folder: Path, listing: Listing | None) -> None:
    """Raises where a folder holds something, and that is no project of ours."""
    entries = [entry.name for entry in folder.iterdir() if entry.name not in (NEW, COMMIT)]
    looks_like_ours = listing is not None and listing.is_sealed
    holds_ours = listing is not None and any(
        (wanted and _hash_or_none(folder, path) == wanted) for path, wanted in listing.files.items()
    )
    if entries and (listing is None or (looks_like_ours and not holds_ours)):
        raise PillionError(
            f"{folder} is not empty and was not written by Pillion",
            rule="only an empty folder or an earlier project (its manifest.json says so) is written to",
            here=f"it holds {', '.join(sorted(entries)[:5])}"
            + ("; none of the files that its manifest.json lists is there" if listing else ""),
            help="choose another -o, or empty the folder",
        )


def _plan(folder: Path, files: Mapping[str, Content], index: str, listing: Listing) -> Plan:
    """Hashes of all files against what they were and will be."""
    changes: dict[str, Change] = {}
    lost: dict[str, str] = {}
    for path in sorted(files, key=lambda path: (path == index, path)):
        new, was = sha256(files[path]), _hash_of(folder, path)
        if new == was:
            continue
        changes[path] = Change(new, was)
        ours = listing.is_sealed and (path == index or was == listing.files.get(path))
        if was and (not ours or _is_protected(folder / path)):
            lost[path] = _reason(folder / path, path in listing.files or path == index, listing.is_sealed)
    kept = {path.casefold() for path in files}
    removed = {
        path: wanted
        for path, wanted in listing.files.items()
        if listing.is_sealed and path.casefold() not in kept and _hash_or_none(folder, path) == wanted
    }
    return Plan(Journal(changes, removed), lost)


def _is_protected(file: Path) -> bool:
    return not file.lstat().st_mode & stat.S_IWUSR


def _reason(file: Path, is_listed: bool, is_sealed: bool) -> str:
    if file.is_symlink():
        return "a symbolic link"
    if not is_sealed:
        return "perhaps changed: manifest.json does not have the hashes that Pillion wrote"
    if not is_listed:
        return "not written by Pillion"
    return "may not be written" if _is_protected(file) else "changed"


def _would_be_lost(folder: Path, lost: Mapping[str, str]) -> PillionError:
    listed = [f"{path}: {reason}" for path, reason in list(lost.items())[:_MOST_NAMES]]
    more = [f"and {len(lost) - _MOST_NAMES} more"] if len(lost) > _MOST_NAMES else []
    return PillionError(
        f"{len(lost)} {'file' if len(lost) == 1 else 'files'} of {folder} would be lost",
        rule="files are overwritten only if they are as Pillion wrote them",
        here="\n".join([*listed, *more]),
        help="--force overwrites them (force=True in Python); or move them away, or choose another -o",
    )


def _hash_or_none(folder: Path, path: str) -> str:
    """As `_hash_of`, for files that may lie where we do not go."""
    try:
        return _hash_of(folder, path)
    except PillionError:
        return ""


def _hash_of(folder: Path, path: str) -> str:
    """Of a file in a folder; nothing if there is none. Raises where no file can be: a folder's place, or behind a link."""
    for parent in reversed(PurePosixPath(path).parents[:-1]):
        mode = _mode(folder / parent)
        if mode and not stat.S_ISDIR(mode):
            what = "a symbolic link" if stat.S_ISLNK(mode) else "a file"
            raise _in_the_way(folder / parent, what, "a folder")
    mode = _mode(folder / path)
    if stat.S_ISLNK(mode):
        return f"link to {hashlib.sha256(os.fsencode(os.readlink(folder / path))).hexdigest()}"
    if mode and not stat.S_ISREG(mode):
        raise _in_the_way(folder / path, "a folder" if stat.S_ISDIR(mode) else "a pipe or a device", "a file")
    if not mode:
        return ""
    total = hashlib.sha256()
    with (folder / path).open("rb") as file:
        while part := file.read(1 << 20):
            total.update(part)
    return total.hexdigest()


def _mode(path: Path) -> int:
    """Zero where there is nothing."""
    try:
        return path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _in_the_way(path: Path, found: str, wanted: str) -> PillionError:
    return PillionError(
        f"{path} is in the way",
        rule=f"{wanted} of the project has this name",
        here=found,
        help="move it away, or choose another -o",
    )


def _stage(folder: Path, journal: Journal, files: Mapping[str, Content]) -> None:
    """All that is new, beside its places; a project that is to be finished from here on."""
    new = folder / NEW
    try:
        put(new / MARK_FILE, MARK)
        for path in journal.changes:
            put(new / STAGED / path, files[path])
            mode = _mode(folder / path)
            if stat.S_ISREG(mode):
                os.chmod(new / STAGED / path, stat.S_IMODE(mode) & 0o777 | stat.S_IWUSR)
        put(new / JOURNAL, json.dumps(plain(journal), indent=1) + "\n")
        os.rename(new, folder / COMMIT)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def _apply(folder: Path, journal: Journal) -> None:
    """Moves what is staged to its place; what was moved before is left out, so it can be done again."""
    staged = folder / COMMIT / STAGED
    for path in journal.changes:
        if (staged / path).exists():
            made((folder / path).parent)
            os.replace(staged / path, folder / path)
    for path, wanted in journal.removed.items():
        with suppress(PillionError):  # it lies behind a link, where nothing is ours
            if _hash_of(folder, path) == wanted:
                os.unlink(folder / path)
            _remove_empty(folder, path)
    os.rename(folder / COMMIT, folder / NEW)
    _remove_marked(folder / NEW)


def _remove_empty(folder: Path, path: str) -> None:
    with suppress(OSError):
        for parent in PurePosixPath(path).parents[:-1]:
            (folder / parent).rmdir()


def finish(folder: Path) -> None:
    """Finishes what was stopped behind the moment of its coming to be, and removes what was stopped before."""
    if _mode(folder / NEW):
        _remove_marked(folder / NEW)
    if not _mode(folder / COMMIT):
        return
    _want_mark(folder / COMMIT)
    journal = _read_journal(folder)
    staged = folder / COMMIT / STAGED
    for path, change in journal.changes.items():
        source = _hash_of(staged, path)
        if source not in ("", change.new) or _hash_of(folder, path) not in ("", change.was, change.new):
            raise _changed_since(folder, path)
    _apply(folder, journal)


def _read_journal(folder: Path) -> Journal:
    file = folder / COMMIT / JOURNAL
    try:
        return build(Journal, parse(read_text(file, "journal")))
    except ValueError as error:
        raise PillionError(
            f"{folder} was being written when that was stopped, and cannot be finished",
            rule="its journal says what is to be done",
            here=f"{file}: {error}",
            help=f"remove {folder / COMMIT}, and compile the model again with --force",
        ) from None


def _changed_since(folder: Path, path: str) -> PillionError:
    return PillionError(
        f"{folder} was being written when that was stopped, and changed since",
        rule="a file that waits for its new content stays as it was",
        here=path,
        help=f"move {folder / path} away, then the same command again; "
        f"or remove {folder / COMMIT}, and compile the model again with --force",
    )


def _want_mark(folder: Path) -> None:
    """Raises where a folder of our name was not made by us."""
    if folder.is_symlink() or not folder.is_dir():
        raise _in_the_way(folder, "something else", "a folder")
    if any(folder.iterdir()) and not MARK.startswith(read_text(folder / MARK_FILE, "mark", len(MARK))):
        raise _in_the_way(folder, "a folder that Pillion has not made", "a folder")


def _remove_marked(folder: Path) -> None:
    """The mark last: a folder that is half removed is still known as ours."""
    _want_mark(folder)
    for entry in folder.iterdir():
        if entry.name != MARK_FILE:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    (folder / MARK_FILE).unlink(missing_ok=True)
    folder.rmdir()


def finish_stopped(folder: Path) -> None:
    """Finishes writing what was stopped half-way. Readers of a project call it first, so that they never see a mixture."""
    if _mode(folder / COMMIT):
        with writing(folder), locked(folder):
            finish(folder)
