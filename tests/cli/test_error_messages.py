# SPDX-License-Identifier: Apache-2.0
"""What users get wrong ends in one message with the rule, the value and the way out, in exit code 2, and in no output."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from shell import Call

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
    def forward(self, x):
        return self.conv(x).relu()

def example_inputs():
    return (torch.randn(1, 3, 8, 8),)

class Accumulates(Net):
    def forward(self, x):
        return torch.logcumsumexp(self.conv(x), 1)

class Depends(Net):
    def forward(self, x):
        return x if x.sum() > 0 else -x

class Nothing(Net):
    def forward(self, x):
        return self.conv(x), None

class Anchors(Net):
    def forward(self, x):
        return torch.ones(3)

def dict_of_inputs():
    return Net(), {"x": torch.randn(1, 3, 8, 8)}

def number():
    return 3

def fails():
    raise RuntimeError("no weights here")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "broken.py").write_text("def Net(:\n")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "binary.py").write_bytes(b"\x01\0\x02")
    (tmp_path / "no_inputs.py").write_text(NET.replace("example_inputs", "other"))
    (tmp_path / "cut.tflite").write_bytes(b"\x1c\0\0\0TFL3")
    (tmp_path / "text.pt2").write_text("not an archive")
    (tmp_path / "samples").mkdir()
    np.savez(tmp_path / "other_shape.npz", x=np.zeros((2, 3, 9, 9), np.float32))
    np.savez(tmp_path / "other_names.npz", y=np.zeros((2, 3, 8, 8), np.float32))
    np.savez(tmp_path / "weights.npz", foreign=np.zeros(3, np.float32))
    (tmp_path / "taken").write_text("a file")
    return tmp_path


BOTH = ("-t", "cortex-m33", "-q", "-o", "out")
WRONG = {
    "unknown_model": (("compile", "-m", "ds_cn", *BOTH), "did you mean ds_cnn"),
    "no_such_file": (("compile", "-m", "gone.py:Net", *BOTH), "`gone.py` cannot be read"),
    "name_with_more": (("compile", "-m", "zoo:resnet8", *BOTH), "-m resnet8"),
    "file_without_factory": (("compile", "-m", "net.py", *BOTH), "file.py:factory"),
    "unknown_factory": (("compile", "-m", "net.py:Nett", *BOTH), "Net"),
    "empty_file": (("compile", "-m", "empty.py:Net", *BOTH), "neither classes nor functions"),
    "syntax_error": (("compile", "-m", "broken.py:Net", *BOTH), "broken.py:1"),
    "factory_gives_no_module": (("compile", "-m", "net.py:number", *BOTH), "number gives int"),
    "factory_fails": (("compile", "-m", "net.py:fails", *BOTH), "no weights here"),
    "no_example_inputs": (("compile", "-m", "no_inputs.py:Net", *BOTH), "example_inputs"),
    "operator_without_integer_form": (("compile", "-m", "net.py:Accumulates", *BOTH), "logcumsumexp"),
    "control_flow_on_values": (("compile", "-m", "net.py:Depends", *BOTH), "net.py:21"),
    "result_that_is_no_tensor": (("compile", "-m", "net.py:Nothing", *BOTH), "result 1"),
    "unknown_target": (("compile", "-m", "ds_cnn", "-t", "cortex-m56", "-q", "-o", "out"), "cortex-m55"),
    "forgotten_quantize": (("compile", "-m", "ds_cnn", "-t", "cortex-m33", "-o", "out"), "--quantize"),
    "calibration_without_quantize": (
        ("compile", "-m", "ds_cnn", "-t", "cortex-m33", "--calibrate", "x.npz", "-o", "out"),
        "--quantize",
    ),
    "precision_without_quantize": (
        ("compile", "-m", "ds_cnn", "-t", "cortex-m33", "--precision", "int16", "-o", "out"),
        "ds_cnn with --precision, no --quantize",
    ),
    "calibration_missing": (("compile", "-m", "ds_cnn", *BOTH, "--calibrate", "gone"), "gone"),
    "calibration_empty": (("compile", "-m", "ds_cnn", *BOTH, "--calibrate", "samples"), "samples"),
    "calibration_of_other_shape": (
        ("compile", "-m", "net.py:Net", *BOTH, "--calibrate", "other_shape.npz"),
        "8, 8",
    ),
    "foreign_weights": (("compile", "-m", "net.py:Net", *BOTH, "--weights", "weights.npz"), "foreign"),
    "input_size_of_fixed_model": (("compile", "-m", "ds_cnn", *BOTH, "--input-size", "96"), "ds_cnn"),
    "input_size_no_number": (("compile", "-m", "mv2", *BOTH, "--input-size", "big"), "--input-size 96"),
    "input_size_zero": (("compile", "-m", "mv2", *BOTH, "--input-size", "0"), "--input-size 96"),
    "unknown_io_dtype": (("compile", "-m", "ds_cnn", *BOTH, "--io-dtype", "int4"), "float32, int8"),
    "unknown_io_layout": (("compile", "-m", "ds_cnn", *BOTH, "--io-layout", "nhcw"), "nhwc"),
    "unknown_optimize": (("compile", "-m", "ds_cnn", *BOTH, "--optimize", "fast"), "speed, size"),
    "output_of_unknown_kind": (
        ("compile", "-m", "net.py:Net", "-t", "cortex-m33", "-q", "-o", "out.onnx"),
        ".pte",
    ),
    "output_is_a_file": (("compile", "-m", "net.py:Net", "-t", "cortex-m33", "-q", "-o", "taken"), "taken"),
    "cut_tflite": (("compile", "-m", "cut.tflite", "-t", "cortex-m33", "-o", "out"), "cut.tflite"),
    "no_pt2": (("compile", "-m", "text.pt2", *BOTH), "text.pt2"),
    "only_npu_without_one": (("compile", "-m", "net.py:Net", *BOTH, "--only-npu"), "--only-npu"),
    "weights_of_a_pte": (
        ("compile", "-m", "net.pte", *BOTH, "--weights", "gone.npz"),
        "--weights gone.npz with",
    ),
    "size_of_a_pte": (
        ("explain", "-m", "NET.PTE", "-t", "imxrt700", "--input-size", "99"),
        "--input-size 99",
    ),
    "calibration_of_a_tflite": (
        ("compile", "-m", "net.tflite", *BOTH, "--calibrate", "gone"),
        "no file of this name",
    ),
    "layout_of_a_tflite": (
        ("verify", "-m", "cut.tflite", "-t", "imxrt700", "--io-layout", "nhwc"),
        "--io-layout nhwc",
    ),
    "pattern_that_matches_nothing": (
        ("compile", "-m", "net.py:Net", "-t", "imxrt700", "-q", "-o", "out", "--keep-on-cpu", "convv2d"),
        "help  --keep-on-cpu conv2d",
    ),
    "pattern_like_nothing": (
        (
            "explain",
            "-m",
            "net.py:Net",
            "-t",
            "imxrt700",
            "--keep-on-cpu",
            "*2d",
            "--keep-on-cpu",
            "nonsense",
        ),
        "here  nonsense; kinds: conv2d, dequantize, quantize",
    ),
    "keep_on_cpu_without_an_npu": (
        ("compile", "-m", "net.py:Net", *BOTH, "--keep-on-cpu", "conv2d"),
        "--target cortex-m33+int8 --keep-on-cpu conv2d",
    ),
    "constant_output": (("compile", "-m", "net.py:Anchors", *BOTH), "an output of `anchors` is a constant"),
    "empty_file_has_no_suggestion": (("compile", "-m", "empty.py:Net", *BOTH), "help  write there"),
    "binary_file": (("compile", "-m", "binary.py:Net", *BOTH), "  (binary.py)"),
    "inputs_of_the_factory": (
        ("compile", "-m", "net.py:dict_of_inputs", *BOTH),
        "a dict from net.py:dict_of_inputs",
    ),
    "run_a_python_file": (("run", "net.py"), "compile -m net.py:Net -t TARGET --quantize -o net/"),
    "run_a_factory": (("run", "net.py:Sorts"), "compile -m net.py:Sorts -t TARGET --quantize -o net/"),
    "run_a_tflite": (("run", "cut.tflite"), "compile -m cut.tflite -t TARGET -o cut/"),
    "verify_a_python_file": (("verify", "net.py"), "net.py is not a program"),
    "run_nothing": (("run", "gone"), "gone"),
    "run_a_folder_without_a_project": (("run", "samples"), "samples"),
    "explain_unknown_model": (("explain", "-m", "gone", "-t", "imxrt700"), "pillion models"),
    "unknown_device": (("ops", "--device", "neutron-n9"), "neutron-n3-64"),
}


@pytest.mark.turns(5)
@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_answered_in_four_parts(name: str, pillion: Call, folder: Path) -> None:
    arguments, expected = WRONG[name]
    before = sorted(folder.rglob("*"))
    answer = pillion(*arguments)
    lines = [line for line in answer.err.splitlines() if not line.startswith("warning:")]
    assert answer.code == 2, answer.err
    assert lines[0].startswith("error: ")
    assert [line.split()[0] for line in lines[1:] if not line.startswith("   ")] == ["rule", "here", "help"]
    assert expected in answer.err
    assert "Traceback" not in answer.err
    assert answer.out == ""
    assert [p for p in sorted(folder.rglob("*")) if "__pycache__" not in str(p)] == before


@pytest.mark.turns(2)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_standard_output_is_said(unbuffered: str) -> None:
    command = [sys.executable, "-m", "pillion", "targets"]
    with Path("/dev/full").open("w") as full:
        answer = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert answer.returncode == 2
    assert answer.stderr.startswith("error: the answer cannot be written\n  rule  ")
    assert len(answer.stderr.splitlines()) == 4


def test_a_missing_option_names_itself(pillion: Call) -> None:
    answer = pillion("compile", "-m", "ds_cnn", "-o", "out")
    assert answer.code == 2
    assert "--target" in answer.err
