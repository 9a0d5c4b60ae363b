# SPDX-License-Identifier: Apache-2.0
"""The firmware of MLPerf Tiny, asked as the benchmark's runner asks over the emulated UART."""

from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np
import pytest
import serial
from shell import Call, refused
from test_serial_boards import BOARD, KEYWORDS, NET, serving

from pillion.emitters.c.manifest import manifest_in
from pillion.run.executor_list import run_folder
from pillion.run.random_inputs import samples_of_manifest

pytestmark = [pytest.mark.qemu, pytest.mark.torch]
needs_models = pytest.mark.skipif(not KEYWORDS.is_dir(), reason="the models of MLPerf Tiny are not at hand")


class Runner:
    """The runner's side: a command, and the lines of its answer up to m-ready."""

    def __init__(self, place: str) -> None:
        self.port = serial.Serial(place.removeprefix("serial:"), 115200, timeout=0.5)
        self.ask("")
        while self.port.read(1000):
            """What the board said when it started."""

    def ask(self, command: str) -> list[str]:
        self.port.write(f"{command}%".encode())
        text, deadline = b"", time.monotonic() + 120
        while not text.endswith(b"m-ready\r\n"):
            assert time.monotonic() < deadline, text
            text += self.port.read(max(1, self.port.in_waiting))
        return text.decode().split("\r\n")[:-2]

    def load(self, data: bytes, most: int = 31) -> None:
        assert self.ask(f"db load {len(data)}") == [f"m-[Expecting {len(data)} bytes]"]
        answers = [self.ask(f"db {data[at : at + most].hex()}") for at in range(0, len(data), most)]
        assert answers[-1] == ["m-load-done"]
        assert not any(answers[:-1])

    def infer(self, runs: int, warm_ups: int) -> tuple[int, list[float]]:
        """The microseconds of all runs, and the results."""
        told = self.ask(f"infer {runs} {warm_ups}")
        laps = [int(line.removeprefix("m-lap-us-")) for line in told if line.startswith("m-lap-us-")]
        assert [line for line in told if not line.startswith("m-lap-us-")][:-1] == [
            f"m-warmup-start-{warm_ups}",
            "m-warmup-done",
            f"m-infer-start-{runs}",
            "m-infer-done",
        ]
        results = re.fullmatch(r"m-results-\[([\d.,]+)\]", told[-1])
        assert results is not None
        return laps[1] - laps[0], [float(x) for x in results[1].split(",")]


def data_of(name: str, x: np.ndarray) -> bytes:
    """An int8 input as the runner has it: bytes of an image, or the floats of frames."""
    if name == "ad":
        return (np.float32(0.3910152316093445) * (x.astype(np.float32) - 89)).astype("<f4").tobytes()
    return x.tobytes() if name == "kws" else (x.view(np.uint8) ^ 128).tobytes()


@needs_models
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "model", "target"),
    [
        (name, model, target)
        for name, model in (("kws", "kws01"), ("ad", "ad01"), ("ic", "ic01"), ("vww", "vww01"))
        for target in BOARD
        if (name, target) != ("vww", "cortex-m55")  # whose 27,648 bytes are sent once
    ],
)
def test_each_model_by_its_runner(pillion: Call, tmp_path: Path, name: str, model: str, target: str) -> None:
    folder = tmp_path / name
    options = ("-o", folder, "--serial", "qemu", "--benchmark", "mlperf-tiny")
    assert pillion("compile", KEYWORDS / f"{name}_int8.tflite", "-t", target, *options).code == 0
    manifest = manifest_in(folder)
    samples = samples_of_manifest(manifest.inputs, 1, seed=2)
    data = data_of(name, samples[0][0])
    if name == "kws":
        samples = [[np.load(KEYWORDS / "kws_inputs.npy").reshape(manifest.inputs[0].shape)]]
        data = samples[0][0].tobytes()
    elif name == "ad":
        data = np.load(KEYWORDS / "ad_frames.npy")[:5].astype("<f4").tobytes()
        steps = np.frombuffer(data, "<f4") / np.float32(manifest.inputs[0].scale)
        q = np.clip(np.trunc(steps + np.copysign(np.float32(0.5), steps)) + 89, -128, 127)
        samples = [[q.astype(np.int8).reshape(1, 640)]]
    (wanted,) = (one.outputs[0].astype(np.float32).ravel() for one in run_folder(folder, samples, "host"))
    result = manifest.outputs[0]
    real = (wanted - np.float32(result.zero_point)) * np.float32(result.scale)
    for place in serving(folder, target):
        runner = Runner(place)
        assert runner.ask("name") == ["m-name-dut-[Pillion]"]
        assert runner.ask("profile")[1] == f"m-model-[{model}]"
        runner.load(data)
        _, results = runner.infer(1, 0)
        if name == "ad":
            assert results == [pytest.approx(np.mean((real - np.frombuffer(data, "<f4")) ** 2), abs=2e-3)]
        else:
            assert results == [int(1000 * one) / 1000 for one in real.tolist()]
        spent, again = runner.infer(2, 1)
        assert again == results
        counted = pillion("run", folder, "--on", BOARD[target], "--profile", "--json").facts["instructions"]
        assert counted <= spent * 1000 / 128 / 2 <= 1.08 * counted + 30 * len(data)


@needs_models
@pytest.mark.slow
def test_invalid_commands_are_refused(pillion: Call, tmp_path: Path) -> None:
    folder = tmp_path / "kws"
    options = ("-o", folder, "--serial", "qemu", "--benchmark", "mlperf-tiny")
    assert pillion("compile", KEYWORDS / "kws_int8.tflite", "-t", "cortex-m33", *options).code == 0
    for place in serving(folder, "cortex-m33"):
        runner = Runner(place)
        for command in (
            "infer 1 0",
            "db",
            "db load",
            "db load 9999999999",
            "db load 489",
            "infer 0",
            "infer x",
            "nonsense",
            "x" * 999,
        ):
            (line,) = runner.ask(command)
            assert line.startswith("e-["), command
        runner.ask("db load 490")
        for digits in ("0", "0g", "zz"):
            (line,) = runner.ask(f"db {digits}")
            assert line.startswith("e-[")
        runner.load(bytes(490))
        assert runner.ask("db ff") == []
        assert runner.ask("db print")[0] == "m-buffer-00-00-00-00-00-00-00-00"
        first, second = (int(runner.ask("timestamp")[0].removeprefix("m-lap-us-")) for _ in range(2))
        assert first < second
        assert "infer N" in runner.ask("help")[0]
        runner.port.close()
        refused(pillion("run", folder, "--on", place), "no board answers")


def test_other_models_and_options_are_refused(pillion: Call, tmp_path: Path) -> None:
    compiled = ("compile", NET, "-t", "cortex-m33", "-q", "-o", tmp_path / "fw")
    refused(pillion(*compiled, "--benchmark", "mlperf-tiny"), "--serial qemu")
    refused(pillion(*compiled, "--serial", "qemu", "--benchmark", "coremark"), "mlperf-tiny")
    refused(
        pillion(*compiled, "--serial", "qemu", "--benchmark", "mlperf-tiny"),
        "is no model of MLPerf Tiny",
        "kws01 490 to 12",
    )
