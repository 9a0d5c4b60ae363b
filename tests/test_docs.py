# SPDX-License-Identifier: Apache-2.0
"""The docs are true as far as a program can tell: links lead somewhere, commands and options exist, Python parses."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest
import typer.main

from pillion.cli import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
BLOCK = re.compile(r'^```(\w*)(?: title="[^"]*")?\n(.*?)^```', re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [text for found, text in BLOCK.findall(page.read_text("utf-8")) if found == language]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_links_lead_somewhere() -> None:
    links = [(page, link) for page in PAGES for link in LINK.findall(page.read_text("utf-8"))]
    assert [f"{name(page)}: {link}" for page, link in links if not (page.parent / link).exists()] == []


@pytest.mark.turns(2)
@pytest.mark.parametrize("page", [page for page in PAGES if "pillion " in page.read_text("utf-8")], ids=name)
def test_commands_can_be_typed(page: Path) -> None:
    group = typer.main.get_command(app)
    options = {option for parameter in group.params for option in parameter.opts}
    for line in "\n".join(blocks(page, "") + blocks(page, "sh")).replace("\\\n", " ").splitlines():
        typed = re.split(r" \|\|? | && | > ", line.removeprefix("$ "))[0]
        words = shlex.split(typed, comments=True) if typed.startswith("pillion ") else []
        if words and words[1].startswith("-"):
            assert words[1] in options
        elif words:
            command = group.commands[words[1]]  # type: ignore[attr-defined]  # a group
            with command.make_context(words[1], words[2:]):  # raises where an option is not there
                pass


def test_python_can_be_parsed() -> None:
    for page in PAGES:
        for text in blocks(page, "python"):
            ast.parse(text, name(page))
