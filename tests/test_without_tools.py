# SPDX-License-Identifier: Apache-2.0
"""A laptop on which no compiler and no emulator is installed: reports and programs are made, and what needs tools is refused with the
way to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch

SOURCE = str(Path(__file__).resolve().parents[1] / "src")
IN_ONE_PROCESS = """
import contextlib, io, json, sys
from pillion.cli import main
answers = []
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["pillion", *arguments]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    answers.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(answers))
"""
PYTHON = """
import torch, pillion
from pillion import PillionError
model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU())
x = torch.randn(1, 1, 7, 5)
program = pillion.compile(model, (x,), target="imxrt700", calibrate=[x])
assert len(program.save("p.pte").read_bytes()) > 500 and program.save("p.tflite").exists()
assert (program.save("project") / "model" / "model.c").exists()
for_core = pillion.compile(model, (x,), target="cortex-m55", calibrate=[x])
page = for_core.report("report.html").read_text("utf-8")
assert "<svg" in page and "Instructions are not counted: no C compiler for Arm" in page, "why there are no instructions"
assert program.explain() and program.text() and program.memory.arena_bytes > 0
assert program.run(x.numpy())[0].shape == (1, 4, 5, 3)
verification = program.verify(1)
ran = [run.executor for run in verification.runs if run.has_run]
assert ran[0] == "reference" and "host" not in ran, ran
for place in ("host", "mps2-an505", "executorch"):
    try:
        program.run(x.numpy(), on=place)
    except PillionError as error:
        assert "was found" in error.what and "apt-get install" in error.help, error
    else:
        raise AssertionError(place)
"""


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def facts(self) -> Any:
        return json.loads(self.out)


def bare(folder: Path) -> dict[str, str]:
    """The environment of a machine that has Python and nothing else."""
    kept = {name: value for name, value in os.environ.items() if name != "CC"}
    return {
        **kept,
        "PATH": str(folder / "empty"),
        "PYTHONPATH": SOURCE,
        "PILLION_CACHE": str(folder / "cache"),
    }


@pytest.mark.turns(9)
def test_the_command_line(tmp_path: Path) -> None:
    model = ("-m", "separable_residual", "-q")
    commands: dict[str, list[str]] = {
        "pte": ["compile", *model, "-t", "imxrt700", "-o", "net.pte", "--json"],
        "c": ["compile", *model, "-t", "cortex-m55", "-o", "fw", "--json"],
        "tflite": ["compile", "-m", "net.pte", "-t", "cortex-m33", "-o", "net.tflite", "--json"],
        "explain": ["explain", "-m", "net.tflite", "-t", "imxrt700", "--json"],
        "reference": ["run", "net.pte", "--on", "reference", "--json"],
        "doctor": ["doctor", "--json"],
        "version": ["--version"],
        "new": ["new", "project"],
        "host": ["run", "fw"],
        "board": ["run", "fw", "--on", "mps3-an547", "--profile"],
        "executorch": ["run", "net.pte", "--on", "executorch"],
        "verify": ["verify", "fw"],
    }
    done = subprocess.run(
        [sys.executable, "-c", IN_ONE_PROCESS, json.dumps(list(commands.values()))],
        cwd=tmp_path,
        env=bare(tmp_path),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    answers = {
        name: Answer(*row)
        for name, row in zip(commands, json.loads(done.stdout.splitlines()[-1]), strict=True)
    }
    refused = ("host", "board", "executorch", "verify")
    assert [(name, a.err) for name, a in answers.items() if a.code != (2 if name in refused else 0)] == []
    assert answers["pte"].facts["file_bytes"] == (tmp_path / "net.pte").stat().st_size
    assert answers["c"].facts["arena_bytes"] > 0
    assert (tmp_path / "fw" / "model" / "model.c").exists()
    assert answers["explain"].facts["ops"]
    assert answers["reference"].facts["outputs"]
    assert not any(one["ready"] for one in answers["doctor"].facts["found"] if one["kind"] == "program")
    for name, (package, tool) in {
        "host": ("gcc libc6-dev", "C compiler for this computer"),
        "board": ("gcc-arm-none-eabi", "C compiler for Arm Cortex-M"),
        "executorch": ("g++", "C++ compiler"),
        "verify": ("gcc-arm-none-eabi", "there is nothing to compare"),
    }.items():
        assert f"apt-get install {package}" in answers[name].err
        assert tool in answers[name].err
        assert "Traceback" not in answers[name].err


@pytest.mark.turns(11)
def test_python(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PYTHON], cwd=tmp_path, env=bare(tmp_path), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
