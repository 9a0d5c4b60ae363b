# SPDX-License-Identifier: Apache-2.0
"""`pillion report` and `compile --report`: models of all kinds, and what is refused before long work begins."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pillion.cli import main

pytestmark = pytest.mark.torch
FOREIGN = Path(__file__).parents[1] / "importers" / "foreign"
NET = Path(__file__).parents[1] / "cli" / "small_net.py"


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["pillion", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        return Answer(code, *capsys.readouterr())

    return call


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path / "data.npz"
    np.savez(path, x=rng.standard_normal((5, 3, 9, 7)).astype(np.float32))
    return path


def test_a_model_becomes_a_page(tmp_path: Path, data: Path, call: Any) -> None:
    page = tmp_path / "r.html"
    answer = call("report", f"{NET}:Net", "-t", "imxrt700", "--calibrate", data, "--no-measure", "-o", page)
    assert answer.code == 0, answer.err
    assert f"{page.stat().st_size:,}" in answer.out
    text = page.read_text("utf-8")
    assert f"pillion report {NET}:Net -t imxrt700" in text
    for what in ("model&#39;s file", "calibration data", "the compiled graph"):
        assert what in text
    assert "small_net.py:" in text
    assert "through the float model" in text


def test_the_facts_alone(tmp_path: Path, data: Path, call: Any) -> None:
    options = ("--data", data, "--samples", 2, "--no-measure", "--json")
    answer = call("report", f"{NET}:Net", "-t", "cortex-m55", *options)
    facts = json.loads(answer.out)
    assert facts["quality"]["samples"] == 2
    assert facts["quality"]["has_floats"] is True
    assert list(tmp_path.iterdir()) == [data]


def test_reports_of_files_show_their_own_segments(tmp_path: Path, data: Path, call: Any) -> None:
    """A .pte without a target: its own segments, and the words of the file as reason. The .tflite is compiled."""
    for output in ("net.pte", "net.tflite"):
        assert call("compile", "-m", f"{NET}:Net", "-t", "imxrt700", "-q", "-o", tmp_path / output).code == 0
    was = json.loads(call("report", f"{NET}:Net", "-t", "imxrt700", "--no-measure", "--json").out)
    read = json.loads(call("report", tmp_path / "net.pte", "--no-measure", "--json").out)
    assert [op["unit"] for op in read["ops"]] == [op["unit"] for op in was["ops"]]
    assert read["crossing_bytes"] == was["crossing_bytes"] > 0
    assert [(e["maker"], e["reader"], e["is_border"]) for e in read["edges"]] == [
        (e["maker"], e["reader"], e["is_border"]) for e in was["edges"]
    ]
    assert {op["because"].split(":")[0] for op in read["ops"]} == {"the file says so"}
    page = tmp_path / "r.html"
    assert call("report", tmp_path / "net.pte", "--no-measure", "--data", data, "-o", page).code == 0
    assert "no float model is at hand" in page.read_text("utf-8")
    assert call("report", tmp_path / "net.tflite", "-t", "cortex-m55", "--no-measure", "-o", page).code == 0


@pytest.mark.parametrize("name", ["res_m55.pte", "acts_m55.pte"])
def test_programs_of_others_have_pages(name: str, tmp_path: Path, call: Any) -> None:
    answer = call("report", FOREIGN / name, "--no-measure", "-o", tmp_path / "r.html")
    assert answer.code == 0, answer.err
    assert "the .pte file" in (tmp_path / "r.html").read_text("utf-8")


@pytest.mark.qemu
def test_compile_writes_it_beside_the_program(tmp_path: Path, data: Path, call: Any) -> None:
    options = ("-q", "--calibrate", data, "--report", tmp_path / "r.html", "--json")
    answer = call("compile", "-m", f"{NET}:Net", "-t", "cortex-m55", "-o", tmp_path / "fw", *options)
    facts = json.loads(answer.out)
    assert facts["report_bytes"] == (tmp_path / "r.html").stat().st_size
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "counted in the emulator" in page
    assert "through the float model" in page


@pytest.mark.turns(4)
@pytest.mark.slow
def test_a_large_network_is_a_small_page(tmp_path: Path, call: Any) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "x.npz", x=rng.standard_normal((1, 3, 96, 96)).astype(np.float32))
    page = tmp_path / "r.html"
    options = ("--calibrate", tmp_path / "x.npz", "--input-size", 96, "--no-measure", "-o", page)
    assert call("report", "mobilenet_v2", "-t", "imxrt700", *options).code == 0
    assert page.stat().st_size <= 1_500_000


WRONG: dict[str, tuple[tuple[object, ...], str]] = {
    "nowhere": (("ds_cnn", "-t", "cortex-m55"), "-o names an .html file"),
    "no target": (("ds_cnn", "-o", "r.html"), "no chip or core to be compiled for"),
    "folder": (("ds_cnn", "-t", "cortex-m55", "-o", "."), "a report is an .html file"),
    "suffix": (("ds_cnn", "-t", "cortex-m55", "-o", "r.pdf"), "suffix .pdf"),
    "no data": (
        ("ds_cnn", "-t", "cortex-m55", "-o", "r.html", "--data", "no.npz"),
        "`no.npz` cannot be read",
    ),
    "no model": (("ds_cn", "-t", "cortex-m55", "-o", "r.html"), "ds_cnn"),
    "target": (("ds_cnn", "-t", "cortex-m56", "-o", "r.html"), "did you mean"),
    "no samples": (("ds_cnn", "-t", "cortex-m55", "-o", "r.html", "--samples", "0"), "--samples"),
    "no folder": (("ds_cnn", "-t", "cortex-m55", "--no-measure", "-o", "/proc/r.html"), "/proc/r.html"),
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_arguments_are_refused(
    name: str, tmp_path: Path, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, words = WRONG[name]
    answer = call("report", *arguments)
    assert answer.code == 2
    assert words in answer.err
    assert "Traceback" not in answer.err
    assert not list(tmp_path.iterdir())


def test_a_page_that_cannot_be_is_refused_before_compiling(tmp_path: Path, call: Any) -> None:
    options = ("-t", "cortex-m55", "-q", "-o", tmp_path / "fw", "--report", tmp_path / "r.txt")
    answer = call("compile", "-m", "ds_cnn", *options)
    assert answer.code == 2
    assert "a report is an .html file" in answer.err
    assert not list(tmp_path.iterdir())


def test_a_c_project_is_refused_as_one(tmp_path: Path, call: Any) -> None:
    refused = call("report", tmp_path, "-o", tmp_path / "r.html")
    assert refused.code == 2
    assert "holds C, and not the model that it was made of" in refused.err
    assert "C project" not in refused.err.split("rule")[1].split("here")[0]
