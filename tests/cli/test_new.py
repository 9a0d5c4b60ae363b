# SPDX-License-Identifier: Apache-2.0
"""`pillion new`: a project that works as it is, and never takes the place of anything."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from shell import Call

from pillion.cli.new import FILES, STARTER


def make(folder: Path, *arguments: str) -> str:
    """What a newcomer sees of a `make` in the project."""
    source = str(Path(__file__).resolve().parents[2] / "src")
    done = subprocess.run(
        ["make", f"PYTHON={sys.executable}", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def project(tmp_path: Path, pillion: Call) -> Path:
    folder = tmp_path / "my stripes"
    answer = pillion("new", folder)
    assert answer.code == 0, answer.err
    assert f"cd '{folder}' && make && make check" in answer.out
    return folder


def test_the_new_folder_has_the_named_files(project: Path) -> None:
    assert sorted(path.name for path in project.iterdir()) == sorted(FILES)
    assert {path.name for path in STARTER.iterdir()} == {f"{name}.in" for name in FILES}
    texts = {path.name: path.read_text("utf-8") for path in project.iterdir()}
    assert texts["README.md"].startswith("# my stripes\n")
    assert not [name for name, text in texts.items() if re.search(r"@[A-Z]+@", text)]
    for name in FILES:
        assert name == "README.md" or f"`{name}`" in texts["README.md"]
        if name.endswith(".py"):
            compile(texts[name], name, "exec")


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("make") is None, reason="make is missing (apt-get install make)")
@pytest.mark.nightly
def test_commands_of_the_readme_work(project: Path) -> None:
    said = make(project)
    float_accuracy = re.search(r"([\d.]+)% of unseen pictures are right, in float", said)
    assert float_accuracy
    assert float(float_accuracy[1]) > 90
    assert (project / "net.pte").exists()
    assert (project / "firmware" / "model" / "model.c").exists()
    int8_accuracy = re.search(r"([\d.]+)% of 200 unseen pictures are right, in int8", make(project, "check"))
    assert int8_accuracy
    assert float(int8_accuracy[1]) > 90
    make(project, "run")
    assert np.load(project / "y.npy").shape == (1, 3)
    assert "firmware" not in make(project, "-s"), "nothing has changed, nothing is made again"
    assert "imxrt700" in make(project, "TARGET=imxrt700", "firmware/manifest.json")
    listed = re.findall(r"^(\w+)  ", make(project, "help"), re.MULTILINE)
    readme = (project / "README.md").read_text("utf-8")
    assert {"run", "board", "check", "verify", "explain"} <= set(listed)
    assert set(re.findall(r"^make (\w+)", readme, re.MULTILINE)) <= set(listed)
    make(project, "clean")
    assert sorted(p.name for p in project.iterdir() if p.name != ".target") == sorted(FILES)


def test_a_chip_is_its_target(tmp_path: Path, pillion: Call) -> None:
    assert pillion("new", tmp_path / "a", "-t", "imxrt700", "--json").facts["target"] == "imxrt700"
    assert "TARGET  ?= imxrt700\n" in (tmp_path / "a" / "Makefile").read_text("utf-8")
    assert "BOARD=" in (tmp_path / "a" / "Makefile").read_text("utf-8")
    answer = pillion("new", tmp_path / "b", "-t", "cortex-m34")
    assert (answer.code, (tmp_path / "b").exists()) == (2, False)


def there(kind: str, place: Path) -> None:
    if kind == "a folder with a file":
        place.mkdir()
        (place / "mine.txt").write_text("mine")
    elif kind == "a hidden file":
        place.mkdir()
        (place / ".git").touch()
    elif kind == "a file":
        place.write_text("mine")
    elif kind == "a link to nothing":
        place.symlink_to(place.parent / "elsewhere")


@pytest.mark.parametrize("kind", ["a folder with a file", "a hidden file", "a file", "a link to nothing"])
def test_new_refuses_to_overwrite_files(kind: str, tmp_path: Path, pillion: Call) -> None:
    there(kind, tmp_path / "place")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    answer = pillion("new", tmp_path / "place")
    assert answer.code == 2
    assert "is there already" in answer.err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert not (tmp_path / "elsewhere").exists()


def test_an_empty_folder_is_as_good_as_none(
    tmp_path: Path, pillion: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert pillion("new", ".").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)


def test_a_failed_write_leaves_no_files(
    tmp_path: Path, pillion: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def full(self: Path, mode: str = "r", **more: object) -> object:
        if mode == "x" and self.name == "check.py":
            raise OSError(28, "No space left on device", str(self))
        return opened(self, mode, **more)  # type: ignore[call-overload]  # any mode

    monkeypatch.setattr(Path, "open", full)
    answer = pillion("new", tmp_path / "deep" / "place")
    assert answer.code == 2
    assert "No space left" in answer.err
    assert not (tmp_path / "deep" / "place").exists()


def test_a_name_may_be_anything(tmp_path: Path, pillion: Call) -> None:
    folder = tmp_path / "größe\n| $(x)"
    assert pillion("new", folder).code == 0
    assert (folder / "README.md").read_text("utf-8").startswith("# größe | $(x)\n")
