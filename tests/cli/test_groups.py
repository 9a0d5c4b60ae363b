# SPDX-License-Identifier: Apache-2.0
"""Commands take options in groups: what one command compiles, the others look at with the same options."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import pytest
import typer.main
from shell import Call, refused

from pillion.cli import app
from pillion.cli.dataclass_options import changed_options, dataclass_options
from pillion.cli.option_groups import (
    BuildOptions,
    ExecutionOptions,
    FormOptions,
    PlacementFlags,
    QuantizationOptions,
    TimingOptions,
)
from pillion.errors import PillionError

COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # a group
COMPILING = ("compile", "explain", "report", "verify", "eval", "compare")
ON_ITS_WAY = ("compile", "explain", "report", "verify", "train")


def leaves(group: Any) -> set[str]:
    hints = get_type_hints(group)
    return {
        leaf
        for field in fields(group)
        for leaf in (leaves(hints[field.name]) if is_dataclass(hints[field.name]) else {field.name})
    }


def params(name: str) -> set[str]:
    return {param.name for param in COMMANDS[name].params}


@pytest.mark.parametrize("name", COMPILING)
def test_commands_that_compile_take_all_that_says_how(name: str) -> None:
    assert leaves(BuildOptions) | {"quantize"} <= params(name)


@pytest.mark.parametrize("name", ON_ITS_WAY)
def test_programs_run_in_parts_wherever_they_are_looked_at(name: str) -> None:
    assert leaves(ExecutionOptions) <= params(name)


@pytest.mark.parametrize("group", [QuantizationOptions, FormOptions, PlacementFlags, TimingOptions])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_has_a_part_of_a_group(name: str, group: type) -> None:
    assert leaves(group) <= params(name) or not leaves(group) & params(name)


@dataclass(frozen=True)
class Colour:
    hue: Annotated[str, typer.Option("--hue", "-u", help="A hue.")] = "red"
    is_dark: Annotated[bool, typer.Option(help="Dark.")] = False


@dataclass(frozen=True)
class Look:
    colour: Colour = Colour()
    width: Annotated[int, typer.Option(help="A width.")] = 3


def test_fields_become_options_and_objects_again() -> None:
    seen: list[Any] = []

    def draw(*, name: Annotated[str, typer.Argument()], look: Look, loud: bool = False) -> None:
        seen.append((name, look, loud))

    spread_draw: Any = dataclass_options(draw)
    assert list(spread_draw.__signature__.parameters) == ["name", "hue", "is_dark", "width", "loud"]
    spread_draw(name="x", hue="blue", is_dark=True, width=4, loud=True)
    assert seen == [("x", Look(Colour("blue", True), 4), True)]


def test_what_was_typed_is_named_as_it_is_typed() -> None:
    assert changed_options(Look()) == {}
    assert changed_options(Look(Colour("blue", True), 4)) == {
        "--hue": "blue",
        "--is-dark": True,
        "--width": 4,
    }


@pytest.mark.parametrize(
    ("group", "typed", "words"),
    [
        (FormOptions, {"io_dtype": "int4"}, "--io-dtype"),
        (FormOptions, {"state_pair": ["h"]}, "--state-pair h"),
        (QuantizationOptions, {"ranges": "most"}, "--ranges"),
        (ExecutionOptions, {"extra": "5"}, "--extra"),
        (ExecutionOptions, {"hop": 2}, "--hop"),
    ],
)
def test_a_group_is_checked_when_it_is_made(group: Any, typed: dict[str, Any], words: str) -> None:
    with pytest.raises(PillionError, match=words):
        group(**typed)


def test_a_written_program_is_compiled_already(pillion: Call, tmp_path: Path) -> None:
    file = tmp_path / "net.pte"
    file.write_bytes(b"\0" * 64)
    refused(
        pillion("verify", file, "--io-dtype", "int8", "--extra", "5%"),
        "compiled already",
        "--io-dtype, --extra go with",
    )
    refused(pillion("verify", file, "--stateful"), "compiled already", "--stateful goes with")
