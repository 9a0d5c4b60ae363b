# SPDX-License-Identifier: Apache-2.0
"""Commands take options in groups: what one command compiles, the others look at with the same options."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer.main
from shell import Call, refused

from pillion.cli import app
from pillion.cli.dataclass_options import changed_options, dataclass_options
from pillion.cli.option_groups import TimingOptions
from pillion.compile_options import (
    KEYWORDS,
    CompileOptions,
    Io,
    Loading,
    Memory,
    NpuOptions,
    PlacementOptions,
    Quantization,
    Stream,
)
from pillion.errors import PillionError
from pillion.option_record import option_fields

COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # a group
COMPILING = ("compile", "explain", "report", "verify", "eval", "compare")
ON_ITS_WAY = ("compile", "explain", "report", "verify", "train")
NOT_WHILE_TRAINING = {"max_flash", "ranges", "equalize", "correct_biases", "weight_rounding"}
"""What is done to weights and ranges after calibration: training finds both itself."""


def leaves(group: Any) -> set[str]:
    if group is TimingOptions:
        return {field.name for field in fields(group)}
    return {one.keyword for one in option_fields(group)}


def params(name: str) -> set[str]:
    return {param.name for param in COMMANDS[name].params}


@pytest.mark.parametrize("name", COMPILING)
def test_commands_that_compile_take_all_that_says_how(name: str) -> None:
    assert leaves(CompileOptions) - leaves(Memory) - leaves(Stream) | {"quantize"} <= params(name)


def test_train_takes_no_options_of_calibration() -> None:
    assert params("compile") >= NOT_WHILE_TRAINING
    assert not NOT_WHILE_TRAINING & params("train")


@pytest.mark.parametrize("name", ON_ITS_WAY)
def test_programs_run_in_parts_wherever_they_are_looked_at(name: str) -> None:
    assert leaves(Memory) | leaves(Stream) <= params(name) | NOT_WHILE_TRAINING


@pytest.mark.parametrize("group", [Quantization, Io, Stream, PlacementOptions, TimingOptions])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_has_a_part_of_a_group(name: str, group: type) -> None:
    left_out = NOT_WHILE_TRAINING if name == "train" else set()
    assert leaves(group) - left_out <= params(name) or not leaves(group) & params(name)


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


def test_changed_options_have_command_line_names() -> None:
    assert changed_options(Look()) == {}
    assert changed_options(Look(Colour("blue", True), 4)) == {
        "--hue": "blue",
        "--is-dark": True,
        "--width": 4,
    }


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (("--io-dtype", "int4"), "--io-dtype is one of float32, int8, uint8"),
        (("--state-pair", "h"), "--state-pair h names no pair"),
        (("--ranges", "most"), "--ranges is one of"),
        (("--extra", "5"), "--extra 5"),
        (("--hop", "2"), "--hop goes with --stream"),
        (("--input-size", "0"), "--input-size 0 is not a size"),
    ],
)
def test_options_are_checked_before_the_compiler_is_loaded(
    pillion: Call, typed: tuple[str, str], words: str
) -> None:
    refused(pillion("compile", "no.pt2", "-t", "cortex-m3", "-o", "x.pte", *typed), words)


@pytest.mark.parametrize(
    ("record", "given", "words"),
    [
        (Io, {"dtype": "int4"}, 'dtype="int8"|dtype is one of'),
        (Io, {"pairs": ["h"]}, "names no pair"),
        (Quantization, {"ranges": "most"}, "ranges is one of"),
        (Memory, {"max_ram": "1K", "extra": "5%"}, "two bounds"),
        (Stream, {"hop": 2}, "frames of no stream"),
        (Loading, {"input_size": "9x"}, "is not a size"),
        (Loading, {"weights": 5}, 'weights=5 is of another type(.|\n)*str or Path(.|\n)*weights="5"'),
        (Loading, {"input_size": (9, 0)}, "is not a size"),
        (NpuOptions, {"neutron_sdk": 3.1}, 'neutron_sdk="3.1"'),
        (Io, {"stateful": "no"}, "is of the type bool"),
        (Io, {"pairs": 5}, "Mapping or Sequence"),
        (CompileOptions, {"name": 5}, 'name="5"'),
        (CompileOptions, {"optimize": "fast"}, "optimize is one of"),
        (CompileOptions, {"quantize": True}, "quantize` is no record of options"),
        (CompileOptions, {"memory": "sram=512K"}, "memory` is no record of options"),
        (CompileOptions, {"stream": Stream("x:1"), "memory": Memory(rows_in=True)}, "rows of an input"),
    ],
)
def test_a_record_is_checked_when_it_is_made(record: Any, given: dict[str, Any], words: str) -> None:
    with pytest.raises(PillionError, match=words):
        record(**given)


def test_a_keyword_changes_the_field_of_a_record() -> None:
    given = {"io_dtype": "int8", "stream": "x:2", "hop": 3, "equalize": True, "optimize": "size"}
    assert CompileOptions().with_keywords(given) == CompileOptions(
        io=Io(dtype="int8"), stream=Stream("x:2", 3), quantize=Quantization(equalize=True), optimize="size"
    )
    tuned = CompileOptions().with_keywords({"calibrate": "data", "tuning": Quantization(ranges="mse")})
    assert tuned.quantize == Quantization("data", "mse")
    with pytest.raises(TypeError, match="'io_type'"):
        CompileOptions().with_keywords({"io_type": "int8"})
    with pytest.raises(PillionError, match="tuning"):
        CompileOptions().with_keywords({"tuning": {"equalize": True}})


def test_one_text_is_one_pattern() -> None:
    """It once was as many as it has letters, of which `*` kept everything off the NPU."""
    keeping = PlacementOptions(keep_on_cpu="conv*")  # type: ignore[arg-type]  # as users write it
    assert keeping == PlacementOptions(("conv*",))
    assert keeping.keeps("softmax", "softmax") is None
    assert CompileOptions().with_keywords({"int16": "head"}).quantize.int16_patterns == ("head",)
    assert CompileOptions().with_keywords({"int16": None}).quantize.int16_patterns == ()
    assert Quantization(int16=["head", "stem"]).int16 == ("head", "stem")  # type: ignore[arg-type]


def test_every_option_has_one_name_and_a_short_help() -> None:
    assert len(KEYWORDS) == len(option_fields(CompileOptions))
    assert all(one.option.help.endswith(".") and len(one.option.help) <= 80 for one in KEYWORDS.values())


def test_a_written_program_is_compiled_already(pillion: Call, tmp_path: Path) -> None:
    file = tmp_path / "net.pte"
    file.write_bytes(b"\0" * 64)
    refused(
        pillion("verify", file, "--io-dtype", "int8", "--extra", "5%"),
        "compiled already",
        "--io-dtype, --extra go with",
    )
    refused(pillion("verify", file, "--stateful"), "compiled already", "--stateful goes with")
