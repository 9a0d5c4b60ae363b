# SPDX-License-Identifier: Apache-2.0
"""Single files are there whole or as they were; links, permissions and what is no file are respected."""

from __future__ import annotations

import os
import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from killing import killed_at

from pillion.errors import PillionError
from pillion.host_io import atomic_files
from pillion.host_io.atomic_files import read_whole, write_whole


def test_a_kill_at_any_step_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    seen = set()
    for step in range(50):
        folder = tmp_path / str(step)
        folder.mkdir()
        file = folder / "m.pte"
        file.write_bytes(b"old")
        was_killed = killed_at(step, lambda file=file: write_whole(file, b"new"))
        seen.add(file.read_bytes())
        write_whole(file, b"newer")
        assert file.read_bytes() == b"newer"
        assert list(folder.iterdir()) == [file]
        if not was_killed:
            break
    assert seen == {b"old", b"new"}
    assert step > 5


def test_a_kill_during_cleanup_leaves_no_temporary_file(tmp_path: Path) -> None:
    def fail(file: Path) -> None:
        with suppress(KeyboardInterrupt), atomic_files._staging_folder(file.parent, file.name) as folder:
            (folder / "new").write_bytes(b"half")
            raise KeyboardInterrupt

    for step in range(50):
        folder = tmp_path / str(step)
        folder.mkdir()
        was_killed = killed_at(step, lambda folder=folder: fail(folder / "m.pte"))
        write_whole(folder / "m.pte", b"new")
        assert [path.name for path in folder.iterdir()] == ["m.pte"]
        if not was_killed:
            break
    assert step > 4


def test_a_folder_that_is_removed_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, made = tempfile.mkdtemp, list[str]()

    def removed(**options: Any) -> str:
        made.append(make(**options))
        if len(made) == 1:
            os.rmdir(made[0])
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", removed)
    write_whole(tmp_path / "m.pte", b"new")
    assert len(made) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["m.pte"]


def test_staging_folders_of_other_processes_are_kept(tmp_path: Path) -> None:
    with atomic_files._staging_folder(tmp_path, "m.pte") as busy:
        write_whole(tmp_path / "m.pte", b"mine")
        assert busy.is_dir()
    assert [path.name for path in tmp_path.iterdir()] == ["m.pte"]


def test_folders_named_like_staging_folders_are_kept(tmp_path: Path) -> None:
    mine = tmp_path / ".m.pte.pillion-1"
    mine.mkdir()
    (mine / "README").write_text("my own")
    write_whole(tmp_path / "m.pte", b"new")
    assert (mine / "README").read_text() == "my own"


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_files_have_the_permissions_of_the_user(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        write_whole(tmp_path / "folder" / "new", b"1")
        (tmp_path / "old").write_bytes(b"1")
        (tmp_path / "old").chmod(0o604)
        write_whole(tmp_path / "old", b"2")
    finally:
        os.umask(before)
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o777 & ~mask
    assert (tmp_path / "folder/new").stat().st_mode & 0o7777 == 0o666 & ~mask
    assert (tmp_path / "old").stat().st_mode & 0o7777 == 0o604


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_stays_and_its_target_is_written(is_there: bool, tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    target, link = tmp_path / "away" / "m.pte", tmp_path / "link.pte"
    if is_there:
        target.write_bytes(b"old")
    link.symlink_to("away/m.pte")
    write_whole(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["away", "link.pte", "m.pte"]


def make(kind: str, path: Path) -> None:
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/null")
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "protected":
        path.write_bytes(b"mine")
        path.chmod(0o444)
    else:
        socket.socket(socket.AF_UNIX).bind(str(path))


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "socket", "loop", "protected"])
def test_special_files_are_not_overwritten(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's name is short
    make(kind, Path("m.pte"))
    before, null = os.lstat("m.pte"), os.stat(os.devnull).st_mode
    with pytest.raises(PillionError) as error:
        write_whole(Path("m.pte"), b"new")
    assert error.value.help
    assert os.lstat("m.pte") == before
    assert os.stat(os.devnull).st_mode == null
    assert os.listdir() == ["m.pte"]


def test_a_name_may_be_as_long_as_names_can_be(tmp_path: Path) -> None:
    write_whole(tmp_path / ("ö" * 125 + ".pte"), b"1")
    assert [len(path.name) for path in tmp_path.iterdir()] == [129]


def test_a_full_disk_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> int:
        raise OSError(28, "No space left on device", str(path))

    (tmp_path / "m.pte").write_bytes(b"old")
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(PillionError, match="cannot be written"):
        write_whole(tmp_path / "m.pte", b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("m.pte", b"old")]


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "socket", "loop"])
def test_special_files_are_not_read(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make(kind, Path("m.pte"))
    with pytest.raises(PillionError, match="cannot be read"):
        read_whole(Path("m.pte"), ".pte")


def test_a_file_of_too_many_bytes_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(11))
    assert read_whole(tmp_path / "x", "x", 11) == bytes(11)
    with pytest.raises(PillionError, match="11 bytes, and 10 are the most"):
        read_whole(tmp_path / "x", "x", 10)
