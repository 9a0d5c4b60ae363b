# SPDX-License-Identifier: Apache-2.0
"""The pages "Coming from …" are what happens: their commands are run in an empty folder, in this process, and print what is shown."""

from __future__ import annotations

import importlib.util
import io
import re
import shlex
import shutil
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import typer.main

from pillion.cli import app, main

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import tutorials  # noqa: E402  # its folder is put on the path first

PAGES = sorted((ROOT / "docs" / "coming-from").glob("*.md"))
NEEDS = {"executorch": ("executorch",), "stm32cube-ai": ("onnx", "onnxruntime"), "vela": ("ethosu",)}
"""Packages that the commands of a page need, by page."""
TOOLS = ("arm-none-eabi-gcc", "qemu-system-arm", "cc")
SECTIONS = [
    "Side by side",
    "What is better there",
    "What is better here",
    "In an afternoon",
    "What does not move",
]


def words_of(line: str) -> list[str]:
    """The words of a command of ours; none for other lines."""
    return shlex.split(line, comments=True)[1:] if line.startswith("pillion ") else []


def in_tables(text: str) -> list[str]:
    """The commands in a page's tables, but for those with a placeholder in capitals."""
    rows = "\n".join(line for line in text.splitlines() if line.startswith("|"))
    return [line for line in re.findall(r"`(pillion [^`]+)`", rows) if not re.search(r" [A-Z]+( |$)", line)]


class Reader(tutorials.Reader):
    """Runs Python and commands of ours in this process, and other commands in a shell."""

    def __init__(self, folder: Path, bin_folder: Path) -> None:
        super().__init__(folder, bin_folder)
        self.names: dict[str, object] = {"__name__": "__main__"}

    def run_shell(self, text: str) -> tuple[int, str]:
        printed = ""
        for line in text.replace("\\\n", " ").splitlines():
            code, more = self.run_command(line) if words_of(line) else super().run_shell(line)
            printed += more
            if code != 0:
                return code, printed
        return 0, printed

    def run_command(self, line: str) -> tuple[int, str]:
        words, said = words_of(line), io.StringIO()
        sys.argv = ["pillion", *words]
        with redirect_stdout(said), redirect_stderr(said):
            try:
                main()
                code = 0
            except SystemExit as end:
                code = int(end.code or 0)
        for place in (words[i + 1] for i, word in enumerate(words[:-1]) if word in ("-o", "--output")):
            assert code != 0 or (self.folder / place).exists(), f"{line} makes {place}"
        return code, said.getvalue()

    def run_python(self, text: str) -> tuple[int, str]:
        said = io.StringIO()
        with redirect_stdout(said):
            try:
                exec(compile(text, "<page>", "exec"), self.names)
            except Exception:
                return 1, said.getvalue() + traceback.format_exc()
        return 0, said.getvalue()


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.qemu
@pytest.mark.skipif(not all(map(shutil.which, TOOLS)), reason=f"needs {', '.join(TOOLS)}")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_prints_what_it_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing := [name for name in NEEDS.get(page.stem, ()) if importlib.util.find_spec(name) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    for name in ("work", "bin"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(tutorials, "Reader", Reader)
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path / "work")
    assert tutorials.check(page, tmp_path / "work", tmp_path / "bin") >= 1
    reader = Reader(tmp_path / "work", tmp_path / "bin")
    for line in in_tables(page.read_text("utf-8")):
        code, said = reader.run_command(line)
        assert code == 0, f"{line}\n{said}"


def test_there_are_five_pages() -> None:
    assert [page.stem for page in PAGES] == [
        "edge-impulse",
        "executorch",
        "stm32cube-ai",
        "tflm",
        "vela",
    ]
    for index in (ROOT / "mkdocs.yml", ROOT / "docs" / "index.md"):
        text = index.read_text("utf-8")
        assert [page.name for page in PAGES if f"coming-from/{page.name}" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_its_parts(page: Path) -> None:
    text = page.read_text("utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    links = re.findall(r"\]\((https?:[^)]*)\)", text)
    assert len(links) >= 3
    assert [link for link in links if not re.fullmatch(r"https://[\w.-]+/[\w./%@+#=&?-]*", link)] == []
    assert re.search(r"read in \w+ 20\d\d", text), "when theirs was read"
    assert len(text.splitlines()) <= 120


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_in_tables_can_be_typed(page: Path) -> None:
    """Commands with their options in tables; those that need a board are in blocks that tests/test_docs.py checks."""
    group = typer.main.get_command(app)
    text = page.read_text("utf-8")
    commands = group.commands.values()  # type: ignore[attr-defined]  # a group
    known = {option for command in commands for parameter in command.params for option in parameter.opts}
    ours = " ".join(line.split(" | ")[-1] for line in text.splitlines() if line.startswith("|"))
    assert {option for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", ours)} <= known
    lines = re.findall(r"`(pillion [^`]+)`", text)
    assert lines
    for line in lines:
        command, *words = words_of(line)
        with group.commands[command].make_context(command, words):  # type: ignore[attr-defined]  # a group
            pass


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_figures_stand_on_the_pages_that_are_linked(page: Path) -> None:
    """Large numbers of "What is better here" are those of a page that it links."""
    part = page.read_text("utf-8").split("## What is better here")[1].split("\n## ")[0]
    linked = [page.parent / link for link in re.findall(r"\]\(([^):#]+\.md)", part)]
    known = "".join(path.read_text("utf-8") for path in linked)
    figures = re.findall(r"(?<![\d,])\d{1,3}(?:,\d{3})+", part)
    assert [figure for figure in figures if figure not in known] == []
