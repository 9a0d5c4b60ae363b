# SPDX-License-Identifier: Apache-2.0
"""Writing a project into a folder: what is not as Pillion wrote it stays, and a run that is killed anywhere loses nothing."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from killing import killed_at

from faulty_executors import net
from pillion.emitters.c.manifest import MANIFEST, Manifest, read_manifest
from pillion.emitters.c.project import check_project, write_project
from pillion.errors import PillionError
from pillion.host_io import project_folders
from pillion.host_io.atomic_files import Content, content_chunks
from pillion.program import Program
from pillion.targets import find_target

Files = dict[str, Content]


def program(target: str) -> Program:
    return Program(net(), find_target(target))


@pytest.fixture(scope="module")
def small() -> Files:
    """A project with two files of its own beside the manifest and a folder."""
    return cut(program("cortex-m0plus"), {"model.c": "old\n", "model.h": "same\n", "host/model.c": "host\n"})


@pytest.fixture(scope="module")
def other() -> Files:
    """The same without host/, with another file, and two of other content."""
    return cut(
        program("cortex-m0plus"), {"model.c": "new\n", "model.h": "same\n", "npu/segment.c": "added\n"}
    )


def cut(made: Program, files: Files) -> Files:
    """A project of a few files, with the manifest of a real one."""
    from pillion.emitters.c.project import manifest

    return {**files, MANIFEST: manifest(made.lowered, made.target.name).sealed(files).text()}


def content_of(folder: Path) -> dict[str, bytes]:
    """Files and links; folders have a slash."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = os.readlink(path).encode()
        else:
            found.update({name: path.read_bytes()} if path.is_file() else {f"{name}/": b""})
    return found


def with_folders(files: Files) -> dict[str, bytes]:
    made = {name: b"".join(content_chunks(data)) for name, data in files.items()}
    parents = {f"{parent}/" for name in files for parent in list(Path(name).parents)[:-1]}
    return {**made, **{parent: b"" for parent in parents}}


def test_a_real_project_over_another(tmp_path: Path) -> None:
    folder = program("cortex-m33").firmware(tmp_path / "fw")
    assert (folder / "host" / "model.c").is_file()
    made = program("cortex-m0plus")
    assert content_of(made.firmware(folder)) == with_folders(made.files)


def test_files_of_the_user_stay(tmp_path: Path, small: Files, other: Files) -> None:
    folder = tmp_path / "fw"
    write_project(small, folder)
    mine = {
        "my_app.c": b"int main",
        "src/a.c": b"mine",
        "build/host/model.o": b"object",
        "host/mine.c": b"mine",
    }
    for name, data in mine.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    (folder / "empty").mkdir()
    (folder / "link").symlink_to("my_app.c")
    write_project(other, folder)
    wanted = {**with_folders(other), **with_folders({**mine}), "empty/": b"", "link": b"my_app.c"}
    assert content_of(folder) == wanted


def test_unchanged_files_are_not_rewritten(tmp_path: Path, small: Files, other: Files) -> None:
    """So that make does not build it again."""
    folder = tmp_path / "fw"
    write_project(small, folder)
    before = {name: (folder / name).stat().st_ino for name in ("model.c", "model.h")}
    write_project(other, folder)
    assert (folder / "model.h").stat().st_ino == before["model.h"]
    assert (folder / "model.c").stat().st_ino != before["model.c"]


def edit(folder: Path) -> None:
    (folder / "model.c").write_text("mine\n")


def add_a_name_of_ours(folder: Path) -> None:
    (folder / "npu").mkdir()
    (folder / "npu/segment.c").write_text("mine\n")


def link(folder: Path) -> None:
    (folder.parent / "elsewhere").write_text("old\n")
    (folder / "model.c").unlink()
    (folder / "model.c").symlink_to(folder.parent / "elsewhere")


def protect(folder: Path) -> None:
    (folder / "model.c").chmod(0o444)


def edit_manifest(folder: Path) -> None:
    text = (folder / MANIFEST).read_text()
    (folder / MANIFEST).write_text(text.replace('"macs": ', '"macs": 1', 1))


def without_hashes(folder: Path) -> None:
    """As earlier versions wrote it."""
    import json

    facts = json.loads((folder / MANIFEST).read_text())
    del facts["checksum"]
    facts["files"] = sorted(facts["files"])
    (folder / MANIFEST).write_text(json.dumps(facts))


LOST: dict[str, tuple[Callable[[Path], None], str]] = {
    "edited": (edit, "model.c: changed"),
    "of the user": (add_a_name_of_ours, "npu/segment.c: not written by Pillion"),
    "a link": (link, "model.c: a symbolic link"),
    "protected": (protect, "model.c: may not be written"),
    "the manifest": (edit_manifest, "manifest.json: perhaps changed"),
    "an earlier version": (without_hashes, "model.c: perhaps changed"),
}


@pytest.mark.parametrize("name", LOST)
def test_edited_files_are_kept_unless_forced(name: str, tmp_path: Path, small: Files, other: Files) -> None:
    change, words = LOST[name]
    folder = tmp_path / "fw"
    write_project(small, folder)
    change(folder)
    before = content_of(tmp_path)
    for attempt in (write_project, check_project):
        with pytest.raises(PillionError, match="would be lost") as error:
            attempt(other, folder)
        assert words in error.value.here
        assert "--force" in error.value.help
        assert content_of(tmp_path) == before
    write_project(other, folder, force=True)
    left = {"host/", "host/model.c"} if name in ("the manifest", "an earlier version") else set()
    found = content_of(folder)
    assert {path: data for path, data in found.items() if path not in left} == with_folders(other)
    assert left <= set(found)
    if name == "a link":
        assert (tmp_path / "elsewhere").read_text() == "old\n"
    write_project(small, folder)
    assert read_manifest(folder).listing.is_sealed


def test_an_edited_file_that_is_no_longer_written_stays(tmp_path: Path, small: Files, other: Files) -> None:
    folder = tmp_path / "fw"
    write_project(small, folder)
    (folder / "host/model.c").write_text("mine\n")
    write_project(other, folder)
    assert (folder / "host/model.c").read_text() == "mine\n"


def in_the_way(kind: str, folder: Path) -> None:
    target = folder / "npu"
    if kind == "a file":
        target.write_text("mine")
    elif kind == "a link":
        target.symlink_to(folder.parent)
    elif kind == "a folder":
        (target / "segment.c").mkdir(parents=True)
    else:
        target.mkdir()
        os.mkfifo(target / "segment.c")


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("kind", ["a file", "a link", "a folder", "a pipe"])
def test_paths_that_no_file_can_replace_are_refused(
    kind: str, force: bool, tmp_path: Path, small: Files, other: Files
) -> None:
    folder = tmp_path / "fw"
    write_project(small, folder)
    in_the_way(kind, folder)
    before = sorted(p.name for p in folder.rglob("*"))
    with pytest.raises(PillionError, match="is in the way"):
        write_project(other, folder, force)
    assert sorted(p.name for p in folder.rglob("*")) == before
    assert (folder / "model.c").read_text() == "old\n"


def foreign_text(folder: Path, small: Files) -> None:
    (folder / "notes.txt").write_text("mine")


def foreign_manifest(folder: Path, small: Files) -> None:
    (folder / MANIFEST).write_text('{"name": "an extension of a browser", "version": "1"}')


def manifest_alone(folder: Path, small: Files) -> None:
    (folder / MANIFEST).write_text(str(small[MANIFEST]))
    (folder / "model.c").write_text("of somebody else")


def manifest_that_leads_out(folder: Path, small: Files) -> None:
    write_project(small, folder)
    text = str(small[MANIFEST]).replace('"host/model.c"', '"../victim"')
    (folder / MANIFEST).write_text(text)


FOREIGN = [foreign_text, foreign_manifest, manifest_alone, manifest_that_leads_out]


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("fill", FOREIGN, ids=lambda f: f.__name__)
def test_a_folder_that_is_not_ours_is_refused(
    fill: Callable[[Path, Files], None], force: bool, tmp_path: Path, small: Files, other: Files
) -> None:
    folder = tmp_path / "fw"
    folder.mkdir()
    (tmp_path / "victim").write_text("host\n")
    fill(folder, small)
    before = content_of(tmp_path)
    with pytest.raises(PillionError, match="not written by Pillion"):
        write_project(other, folder, force)
    assert content_of(tmp_path) == before


def test_a_path_that_leads_out_is_removed_by_no_manifest(tmp_path: Path, small: Files, other: Files) -> None:
    """Whatever the manifest's hashes and its seal say: a file behind a link is not in the folder."""
    folder = tmp_path / "fw"
    write_project(small, folder)
    shutil.rmtree(folder / "host")
    (tmp_path / "away").mkdir()
    (tmp_path / "away/model.c").write_text("host\n")
    (folder / "host").symlink_to(tmp_path / "away")
    write_project(other, folder)
    assert (tmp_path / "away/model.c").read_text() == "host\n"


BAD_PATHS = [
    "/etc/x",
    "../x",
    "a/../b",
    "a//b",
    "./a",
    "",
    "a\\b",
    "C:x",
    "a\0b",
    "a\nb",
    "x" * 256,
    ".pillion-new/x",
]


@pytest.mark.parametrize("path", BAD_PATHS)
def test_invalid_paths_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"is no (path|name)"):
        project_folders.check_paths([path])


@pytest.mark.parametrize(("pair", "words"), [(("a/B", "a/b"), "one file"), (("a", "a/b"), "lies in a file")])
def test_paths_that_do_not_go_together(pair: tuple[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        project_folders.check_paths(pair)


def test_a_name_that_only_changes_its_capitals_is_not_removed(tmp_path: Path) -> None:
    """Where capitals do not count, it is the new file."""
    made = program("cortex-m0plus")
    write_project(cut(made, {"Model.c": "1", "x": "1"}), tmp_path / "fw")
    write_project(cut(made, {"model.c": "2", "x": "1"}), tmp_path / "fw")
    assert (tmp_path / "fw/Model.c").exists()


def test_a_protected_folder_inside_is_found_before(
    tmp_path: Path, small: Files, other: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "fw"
    write_project(small, folder)
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "host" and may(path, mode))
    with pytest.raises(PillionError, match="cannot be written") as error:
        write_project(other, folder)
    assert "host" in error.value.here
    assert content_of(folder) == with_folders(small)


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_files_have_the_permissions_of_the_user(
    mask: int, tmp_path: Path, small: Files, other: Files
) -> None:
    """New files have what the mask leaves, old ones keep what they have."""
    before = os.umask(mask)
    try:
        write_project(small, tmp_path / "fw")
        assert (tmp_path / "fw").stat().st_mode & 0o777 == 0o777 & ~mask
        assert (tmp_path / "fw/host").stat().st_mode & 0o777 == 0o777 & ~mask
        assert (tmp_path / "fw/model.c").stat().st_mode & 0o777 == 0o666 & ~mask
        (tmp_path / "fw/model.c").chmod(0o640)
        write_project(other, tmp_path / "fw")
        assert (tmp_path / "fw/model.c").stat().st_mode & 0o777 == 0o640
        assert (tmp_path / "fw/npu/segment.c").stat().st_mode & 0o777 == 0o666 & ~mask
    finally:
        os.umask(before)


def hashes(folder: Path) -> dict[str, str]:
    manifest: Manifest = read_manifest(folder)
    return {path: hashlib.sha256((folder / path).read_bytes()).hexdigest() for path in manifest.files}


def steps(
    action: Callable[[Path], object], prepare: Callable[[Path], object], tmp_path: Path
) -> Iterator[Path]:
    """The folder after a kill at each step, until none is left to be killed at."""
    for step in range(200):
        folder = tmp_path / str(step) / "fw"
        folder.parent.mkdir()
        prepare(folder)
        was_killed = killed_at(step, lambda folder=folder: action(folder))
        yield folder
        if not was_killed:
            assert step > 10
            return


@pytest.mark.turns(3)
@pytest.mark.parametrize("reader_first", [True, False])
def test_a_kill_at_any_step_leaves_the_old_or_the_new_project(
    reader_first: bool, tmp_path: Path, small: Files, other: Files
) -> None:
    def prepare(folder: Path) -> None:
        write_project(small, folder)
        (folder / "mine.c").write_text("mine")

    seen = set()
    for folder in steps(lambda folder: write_project(other, folder), prepare, tmp_path):
        if (folder / MANIFEST).read_text() == other[MANIFEST]:  # it comes last
            assert with_folders(other).items() <= content_of(folder).items()
        if reader_first:
            found = hashes(folder)
            assert found == dict(read_manifest(folder).files)
            seen.add(found["model.c"])
        write_project(other, folder)
        assert content_of(folder) == {**with_folders(other), "mine.c": b"mine"}
    assert not reader_first or len(seen) == 2


def test_a_kill_at_any_step_of_the_first_project(tmp_path: Path, small: Files) -> None:
    for folder in steps(lambda folder: write_project(small, folder), lambda folder: None, tmp_path):
        write_project(small, folder)
        assert content_of(folder.parent / "fw") == with_folders(small)
        assert list(folder.parent.iterdir()) == [folder]


def stage_all(folder: Path, files: Files) -> None:
    """As a run that is killed behind its commit."""
    write = project_folders.ProjectWrite(folder, files, MANIFEST, lambda f: read_manifest(f).listing)
    write.stage(write.allowed_changes())


def test_a_kill_while_a_killed_run_is_finished(tmp_path: Path, small: Files, other: Files) -> None:
    """Finishing is done again as often as it takes."""

    def prepare(folder: Path) -> None:
        write_project(small, folder)
        stage_all(folder, other)

    for folder in steps(lambda folder: read_manifest(folder), prepare, tmp_path):
        assert hashes(folder) == dict(read_manifest(folder).files)
        write_project(other, folder)
        assert content_of(folder) == with_folders(other)


def test_edits_after_a_kill_are_kept(tmp_path: Path, small: Files, other: Files) -> None:
    folder = tmp_path / "fw"
    write_project(small, folder)
    stage_all(folder, other)
    (folder / "model.c").write_text("mine\n")
    with pytest.raises(PillionError, match="changed since") as error:
        read_manifest(folder)
    assert error.value.here == "model.c"
    (folder / "model.c").rename(tmp_path / "kept")
    assert hashes(folder) == dict(read_manifest(folder).files)
    assert content_of(folder) == with_folders(other)


JOURNALS = [
    b"",
    b"{}",
    b"[" * 100_000,
    b"\xff",
    b'{"changed": {"../x": ""}, "removed": {}}',
]


@pytest.mark.parametrize("journal", JOURNALS, ids=range(len(JOURNALS)))
def test_a_journal_that_cannot_be_read_is_refused(
    journal: bytes, tmp_path: Path, small: Files, other: Files
) -> None:
    folder = tmp_path / "fw"
    write_project(small, folder)
    (folder / project_folders.COMMIT).mkdir()
    (folder / project_folders.COMMIT / "README").write_text(project_folders.MARK)
    (folder / project_folders.COMMIT / project_folders.JOURNAL).write_bytes(journal)
    with pytest.raises(PillionError) as error:
        write_project(other, folder)
    shutil.rmtree(folder / project_folders.COMMIT)
    assert error.value.help
    assert content_of(folder) == with_folders(small)


def test_a_folder_of_the_users_with_our_name_is_left_alone(
    tmp_path: Path, small: Files, other: Files
) -> None:
    folder = tmp_path / "fw"
    write_project(small, folder)
    (folder / project_folders.NEW).mkdir()
    (folder / project_folders.NEW / "thesis.tex").write_text("mine")
    with pytest.raises(PillionError):
        write_project(other, folder)
    assert (folder / project_folders.NEW / "thesis.tex").read_text() == "mine"


def test_two_writers_take_turns(
    tmp_path: Path, small: Files, other: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pillion.host_io import atomic_files

    folder = tmp_path / "fw"
    write_project(small, folder)
    monkeypatch.setattr(atomic_files, "LOCK_SECONDS", 0.1)
    with atomic_files.folder_lock(folder), pytest.raises(PillionError, match="by another process"):
        write_project(other, folder)
    assert content_of(folder) == with_folders(small)


def test_a_full_disk_changes_nothing(
    tmp_path: Path, small: Files, other: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(small, tmp_path / "fw")

    def full(path: Path, content: object) -> None:
        if path.name == project_folders.JOURNAL:
            raise OSError(28, "No space left on device", str(path))
        real(path, content)  # type: ignore[arg-type]  # what was handed on

    real = project_folders.write_parts
    monkeypatch.setattr(project_folders, "write_parts", full)
    for name in ("fw", "fresh"):
        with pytest.raises(PillionError, match="cannot be written"):
            write_project(other, tmp_path / name)
    assert content_of(tmp_path) == {**{f"fw/{k}": v for k, v in with_folders(small).items()}, "fw/": b""}
