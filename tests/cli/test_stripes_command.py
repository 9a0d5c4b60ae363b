# SPDX-License-Identifier: Apache-2.0
"""Wishes for memory on the command line: what is said of stripes, and of what ends them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shell import Call

NET = f"{Path(__file__).with_name('small_net.py')}:Net"
WISHED = ("-t", "cortex-m55", "--io-layout", "nhwc", "--extra", "100%")


@pytest.mark.turns(4)
@pytest.mark.torch
def test_compile_lists_the_stripes(pillion: Call, tmp_path: Path) -> None:
    answer = pillion("compile", "-m", "resnet8", *WISHED, "-q", "-o", tmp_path / "fw", "--json")
    assert answer.code == 0, answer.err
    facts = json.loads(answer.out)
    assert facts["arena_bytes"] < facts["arena_bytes_without_stripes"]
    assert facts["more_instructions"].startswith("about ")
    assert 0 < float(facts["more_instructions"].split()[1]) <= 100
    (first, *_) = facts["stripes"]
    assert first["ops"] > 1
    assert first["steps"] * first["rows_in_a_step"] >= 8
    assert all(stripe["ended_by"] for stripe in facts["stripes"])
    assert facts["stripes"][-1]["ended_by"].endswith("it makes one of all rows")
    assert "pillion_move_rows" in (tmp_path / "fw" / "model" / "model.c").read_text()


@pytest.mark.torch
def test_rows_in_is_said_and_verified(pillion: Call, tmp_path: Path) -> None:
    rows = ("-m", NET, "-t", "cortex-m33", "--io-layout", "nhwc", "--rows-in", "-q")
    answer = pillion("compile", *rows, "-o", tmp_path / "fw", "--json")
    assert answer.code == 0, answer.err
    facts = json.loads(answer.out)
    assert facts["input"] == "row by row"
    assert facts["stripes"]
    again = pillion("verify", tmp_path / "fw", "--json")
    assert again.code == 0, again.err


@pytest.mark.torch
def test_an_unknown_input_is_refused_with_the_known_ones(pillion: Call, tmp_path: Path) -> None:
    asked = ("compile", "-m", NET, "-t", "cortex-m33", "-q", "-o", tmp_path / "fw", "--rows-of")
    refused = pillion(*asked, "picture")
    assert refused.code == 2
    assert "--rows-of picture" in refused.err
    assert "x" in refused.err.split("help")[1]
    assert pillion(*asked, "x").code == 0


@pytest.mark.turns(3)
@pytest.mark.torch
def test_explain_gives_the_reason_that_ends_a_stripe(pillion: Call) -> None:
    answer = pillion("explain", "-m", "resnet8", "-t", "cortex-m55", "--extra", "100%", "--json")
    assert answer.code == 0, answer.err
    facts = json.loads(answer.out)
    why = {row["kind"]: row["ends_a_stripe"] for row in facts["ops"]}
    assert why["conv2d"] == ""
    assert "moves axes" in why["transpose"]
    assert "has no rows" in why["linear"]
    assert all(row["arena_bytes"] > 0 for row in facts["ops"] if row["kind"] == "conv2d")
    assert facts["stripes"]


@pytest.mark.turns(3)
@pytest.mark.torch
@pytest.mark.parametrize("form", ["x.pte", "x.tflite"])
def test_other_forms_refuse(pillion: Call, tmp_path: Path, form: str) -> None:
    answer = pillion("compile", "-m", "resnet8", *WISHED, "-q", "-o", tmp_path / form)
    assert answer.code == 2
    assert "a few rows at a time" in answer.err
    assert "-o FOLDER" in answer.err
    assert not list(tmp_path.iterdir())


@pytest.mark.torch
def test_the_least_that_a_refusal_names_is_enough(pillion: Call, tmp_path: Path) -> None:
    common = ("compile", "-m", NET, "-t", "cortex-m33", "-q", "-o", tmp_path / "fw", "--max-ram")
    refused = pillion(*common, "16")
    assert refused.code == 2
    least = refused.err.split("help  --max-ram ")[1].split(",")[0]
    assert pillion(*common, least).code == 0


@pytest.mark.torch
@pytest.mark.nightly
def test_default_stripes_apply_to_c_alone(pillion: Call, tmp_path: Path) -> None:
    """They are in C; a file for a runtime that holds whole tensors is written all the same."""
    asked = ("compile", "-m", "resnet8", "-t", "cortex-m55", "--io-layout", "nhwc", "-q", "--json")
    usual, whole, file = (
        pillion(*asked, *more)
        for more in (
            ("-o", tmp_path / "a"),
            ("-o", tmp_path / "b", "--extra", "0%"),
            ("-o", tmp_path / "c.pte"),
        )
    )
    assert (usual.code, whole.code, file.code) == (0, 0, 0), usual.err + whole.err + file.err
    facts = json.loads(usual.out)
    assert facts["stripes"]
    assert "stripes" not in json.loads(whole.out)
    assert facts["arena_bytes_without_stripes"] == json.loads(whole.out)["arena_bytes"]
    assert facts["arena_bytes"] < 0.9 * facts["arena_bytes_without_stripes"]
    assert float(facts["more_instructions"].split()[1]) <= 1
