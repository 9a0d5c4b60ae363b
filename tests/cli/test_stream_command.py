# SPDX-License-Identifier: Apache-2.0
"""Streams on the command line: what is said of them, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shell import Call

NET = f"{Path(__file__).with_name('small_net.py')}:Net"


@pytest.mark.torch
def test_compile_and_explain_list_the_frames_of_a_run(pillion: Call, tmp_path: Path) -> None:
    wish = ("-m", NET, "-t", "cortex-m55", "--stream", "x:2", "--hop", "2", "--json")
    made = pillion("compile", *wish, "-q", "-o", tmp_path / "fw").facts
    assert made["takes"] == ["2 new of 9 frames of x (axis 2) in each run"]
    assert "from run 5 after a reset on" in made["answers"][0]
    assert "last frames" in made["answers_equal"]
    assert made["state_bytes"] > 0
    assert made["inputs"] == ["x: float32[1, 3, 2, 7]"]
    explained = pillion("explain", *wish).facts
    assert explained["answers"] == made["answers"]
    manifest = json.loads((tmp_path / "fw" / "manifest.json").read_text())
    assert manifest["memory"]["state_bytes"] == made["state_bytes"]
    assert manifest["stream"]["inputs"] == [{"name": "x", "axis": 2, "window": 9, "frames": 2}]
    assert manifest["stream"]["meaning"] == "window"
    header = (tmp_path / "fw" / "model" / "model.h").read_text()
    assert "_hop(void *arena, void *state, const float *input_0);" in header


@pytest.mark.torch
def test_refusals_come_before_anything_is_written(pillion: Call, tmp_path: Path) -> None:
    common = ("compile", "-m", NET, "-t", "cortex-m55", "-q", "-o", tmp_path / "fw")
    for options, says in (
        (("--stream", "y:2"), "no input `y`"),
        (("--stream", "x"), "names no axis"),
        (("--stream", "x:1"), "channels are made together"),
        (("--stream", "x:2", "--hop", "0"), "no number of frames"),
        (("--hop", "2"), "frames of no stream"),
    ):
        answer = pillion(*common, *options)
        assert answer.code == 2, options
        assert says in answer.err
        assert "help  " in answer.err
    assert not list(tmp_path.iterdir())


@pytest.mark.torch
@pytest.mark.qemu
def test_run_lists_the_frames_of_a_call(pillion: Call, tmp_path: Path) -> None:
    net = f"{Path(__file__).with_name('small_net.py')}:strided"
    wish = (
        "-m",
        net,
        "-t",
        "cortex-m55",
        "-q",
        "--stream",
        "x:2",
        "--hop",
        "1",
        "-o",
        tmp_path / "fw",
        "--json",
    )
    assert pillion("compile", *wish).facts["takes"] == [
        "1 new of 9 frames of x (axis 2) in each call, 2 calls are a run"
    ]
    ran = pillion("run", tmp_path / "fw", "--on", "mps3-an547", "--profile", "--json").facts
    assert ran["instructions_of_the_longest_call"] == ran["instructions"]
    assert ran["instructions_per_call"] == ran["instructions_per_frame"] == round(ran["instructions"] / 2)
