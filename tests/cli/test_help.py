# SPDX-License-Identifier: Apache-2.0
"""Help can be read by somebody who sees it for the first time: short lines, groups, examples that can be typed."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import typer.main
from shell import Call

from pillion.cli import app
from pillion.cli.help import CHECK, LOOK, MAKE, ORDER

GROUP: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = GROUP.commands
WIDTH = 80


def examples(epilog: str) -> list[str]:
    """Each line without the words behind it."""
    return [re.split(r"\s{2,}", line)[0] for line in epilog.strip().splitlines()]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_that_can_be_typed(name: str) -> None:
    shown = examples(COMMANDS[name].epilog or "")
    assert shown
    assert any(name in example.split() for example in shown)
    for example in shown:
        words = shlex.split(example)
        if words[0] == "pillion":
            with COMMANDS[words[1]].make_context(words[1], words[2:]):
                pass


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_can_be_copied_whole(name: str) -> None:
    shown = COMMANDS[name].get_help(typer.Context(COMMANDS[name])).partition("Examples:\n")[2].splitlines()
    known = examples(COMMANDS[name].epilog or "")
    assert [shlex.join(shlex.split(line, comments=True)) for line in shown] == [
        shlex.join(shlex.split(line)) for line in known
    ]
    columns = {line.index("  # ") for line in shown if "  # " in line and line.index("  # ") <= 74}
    assert len(columns) <= 1


def test_the_examples_of_all_can_be_typed() -> None:
    for example in examples(GROUP.epilog):
        words = shlex.split(example)
        assert words[0] == "pillion"
        if words[1] != "COMMAND":
            with COMMANDS[words[1]].make_context(words[1], words[2:]):
                pass


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_help_text(name: str) -> None:
    for param in COMMANDS[name].params:
        assert param.help, param.name
        assert param.help[0].isupper(), param.help
        assert len(param.help) <= 80, param.help
        assert param.help.rstrip().endswith((".", ")")), param.help


def test_the_list_of_commands_is_whole_sentences_in_groups(pillion: Call) -> None:
    text = pillion("--help").out
    assert [text.index(f"{group}:\n") for group in (MAKE, CHECK, LOOK)] == sorted(
        text.index(f"{group}:\n") for group in (MAKE, CHECK, LOOK)
    )
    for name in COMMANDS:
        (line,) = [line for line in text.splitlines() if re.match(rf"  {name} ", line)]
        assert line.endswith("."), line
        assert not line.endswith("..."), line
    assert all(len(line) <= WIDTH for line in text.partition("Examples:")[0].splitlines())


def test_options_come_in_the_order_in_which_one_thinks(pillion: Call) -> None:
    text = pillion("compile", "--help").out
    places = [
        text.index(f"\n{group}:\n") for group in (*ORDER, "Options", "Examples") if f"\n{group}:\n" in text
    ]
    assert places == sorted(places)
    assert len(places) >= 5


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (("compile", "--nothing"), "no such option: --nothing"),
        (("compil",), "no such command 'compil'. Did you mean 'compile'"),
        (("compile",), "missing option '-o' / '--output'"),
        (("verify", "--samples", "0"), "invalid value for '--samples'"),
        (("run", "fw", "--timeout", "soon"), "invalid value for '--timeout'"),
        (("new",), "missing argument"),
    ],
)
def test_typing_errors_have_the_form_of_all_errors(typed: tuple[str, ...], words: str, pillion: Call) -> None:
    answer = pillion(*typed)
    assert (answer.code, answer.out) == (2, "")
    first, second = answer.err.splitlines()
    assert first.startswith("error: ")
    assert words in first
    assert re.fullmatch(r"  help  pillion( \w+)? --help", second)
