# SPDX-License-Identifier: Apache-2.0
"""C projects for chips with Ethos-U: their own C and commands run on this computer, and what is wrong with them is found."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import pillion
from ethos_streams import needs_vela
from pillion.compile_options import PlacementOptions
from pillion.devices.ethos_u import host_driver
from pillion.devices.ethos_u.payload import parse_payload
from pillion.emitters.c.manifest import read_manifest
from pillion.errors import PillionError
from pillion.run.executor import RunOptions
from pillion.run.executor_list import run_folder
from pillion.run.verify import verify_project

pytestmark = needs_vela
SHAPE = (1, 3, 23, 19)


class Net(nn.Module):
    """Two segments, with a square root between them for the core; the first has two results."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.last = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 16, 3, 2), nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.relu(self.first(x))
        y = torch.sqrt(x)
        return self.last(torch.relu(self.second(y)).mean((2, 3))), x


@pytest.fixture(scope="module")
def program() -> pillion.Program:
    return pillion.compile(
        Net().eval(),
        (torch.randn(SHAPE),),
        target="cortex-m55+ethos-u65-256",
        placement=PlacementOptions(prefer_npu=True),
    )


@pytest.fixture
def project(program: pillion.Program, tmp_path: Path) -> Path:
    return program.firmware(tmp_path / "project")


@pytest.fixture
def samples() -> Iterator[list[list[np.ndarray]]]:  # type: ignore[type-arg]  # of any type
    rng = np.random.default_rng(0)
    return [[rng.standard_normal(SHAPE).astype(np.float32)] for _ in range(2)]  # type: ignore[return-value]  # a fixture's value


@pytest.mark.turns(2)
def test_the_c_of_the_chip_and_its_commands_give_the_bytes_of_the_reference(
    program: pillion.Program,
    project: Path,
    samples: list[list[np.ndarray]],  # type: ignore[type-arg]  # of any type
) -> None:
    assert len(program.payloads.segments) == 2
    for sample, made in zip(samples, run_folder(project, samples, "npu"), strict=True):
        for wanted, got in zip(program.run(*sample), made.outputs, strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_a_project_is_verified_with_its_code(project: Path) -> None:
    done = verify_project(project, 1)
    assert done.ok
    assert "npu" in {run.executor for run in done.runs if run.outputs}


def test_the_command_line_runs_a_project_on_the_npu(project: Path) -> None:
    done = _pillion("run", str(project), "--on", "npu", "--json")
    assert done.returncode == 0, done.stderr
    assert '"on": "npu"' in done.stdout


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("npu/npu_segment_0_ethosu.c", "0x31504f43,", "0x31504f44,", "passes other data to the NPU"),
        (
            "npu/npu_segment_1_ethosu.c",
            "constants_words[",
            "constants_words[1 + ",
            "passes other data to the NPU",
        ),
        (
            "npu/npu_ethosu.c",
            "(uintptr_t)scratch,",
            "(uintptr_t)scratch + 4,",
            "calls the NPU's driver incorrectly",
        ),
        ("npu/npu_ethosu.c", "bases, sizes, 3,", "bases, sizes, 2,", "calls the NPU's driver incorrectly"),
        ("npu/npu_ethosu.c", "    ethosu_release_driver(npu);\n", "", "calls the NPU's driver incorrectly"),
        (
            "npu/npu_ethosu.c",
            "segment->scratch_bytes,",
            "segment->scratch_bytes - 16,",
            "too little memory",
        ),
    ],
)
def test_c_that_was_damaged_is_found(project: Path, file: str, old: str, new: str, message: str) -> None:
    path = project / file
    text = path.read_text()
    assert old in text
    text = text.replace(old, new, 1)
    if "constants_words" in old:  # a word in front: all others lie elsewhere
        head, rest = text.split("constants_words[", 1)
        text = head + "constants_words[" + rest.replace("{\n", "{\n 0x55,\n", 1)
    path.write_text(text)
    with pytest.raises(PillionError, match=message):
        run_folder(project, [[np.zeros(SHAPE, np.float32)]], "npu")


def test_code_that_was_damaged_is_found(project: Path) -> None:
    file = project / "npu_segment_1.bin"
    raw = bytearray(file.read_bytes())
    raw[raw.index(b"COP1") + 4] ^= 2
    file.write_bytes(raw)
    with pytest.raises(PillionError, match="not modelled"):
        run_folder(project, [[np.zeros(SHAPE, np.float32)]], "npu")


@pytest.mark.parametrize(
    ("target", "message"),
    [("cortex-m55", "holds no code for an NPU"), ("cortex-m55+ethos-u65-512", "an NPU of 2 cores")],
)
def test_projects_without_code_that_is_known_are_refused(tmp_path: Path, target: str, message: str) -> None:
    program = pillion.compile(Net().eval(), (torch.randn(SHAPE),), target=target)
    project = program.firmware(tmp_path / "p")
    with pytest.raises(PillionError, match=message):
        run_folder(project, [[np.zeros(SHAPE, np.float32)]], "npu")
    assert "npu" not in {run.executor for run in verify_project(project, 1).runs}


def test_invalid_requests_are_refused() -> None:
    answer = host_driver.segment_executor([])
    for question in (b"", b"x", bytes(32), bytes(33)):
        with pytest.raises(PillionError):
            answer(question)


def test_a_project_that_has_states_keeps_them(tmp_path: Path) -> None:
    class Running(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(1)
            self.conv = nn.Conv2d(3, 8, 3)
            self.register_buffer("held", torch.zeros(1, 8, 21, 17))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.held.copy_(0.5 * self.held + 0.5 * self.conv(x))  # type: ignore[operator]  # a buffer
            return self.held + 0.0

    program = pillion.compile(
        Running().eval(),
        (torch.randn(SHAPE),),
        target="cortex-m55+ethos-u55-64",
        placement=PlacementOptions(prefer_npu=True),
    )
    project = program.firmware(tmp_path / "p")
    manifest = read_manifest(project)
    assert manifest.states
    rng = np.random.default_rng(1)
    samples = [[rng.standard_normal(SHAPE).astype(np.float32)] for _ in range(3)]
    for stream in (True, False):
        options = RunOptions(stream=stream)
        for here, npu in zip(
            run_folder(project, samples, "host", options),
            run_folder(project, samples, "npu", options),
            strict=True,
        ):
            np.testing.assert_array_equal(here.outputs[0], npu.outputs[0])


@pytest.mark.turns(3)
def test_cmake_takes_the_driver_in_the_place_of_the_stand_in(project: Path, tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("no cmake")
    for name, text in host_driver.substitute_driver().files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "main.c").write_text('#include "npu_ethosu.h"\nint main(void) { return net_npu_error; }\n')
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(app C)\nadd_library(the_driver ethosu_driver.c)\n"
        "target_include_directories(the_driver PUBLIC .)\nset(PILLION_NPU_DRIVER the_driver)\nadd_subdirectory(project)\n"
        "add_executable(app main.c)\ntarget_link_libraries(app pillion_net)\n"
    )
    for command in (["cmake", "-B", "b"], ["cmake", "--build", "b"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    objects = {path.name for path in (tmp_path / "b").rglob("*.o")}
    assert {"npu_ethosu.c.o", "npu_segment_0_ethosu.c.o"} <= objects
    assert not any("reference" in name for name in objects)
    assert "npu/" in (project / "README.md").read_text()


def _pillion(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pillion", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.turns(7)
def test_cycles_and_scratch_memory_are_stated_beside_the_compiler(tmp_path: Path) -> None:
    done = _pillion(
        *("compile", "-m", "ds_cnn", "--quantize", "-t", "alif-e7", "-o", str(tmp_path / "x.pte"), "--json")
    )
    said = json.loads(done.stdout)
    program = pillion.load(tmp_path / "x.pte")
    assert "Vela 5." in said["npu"]
    assert said["npu_cycles_estimate"] > 10_000
    assert said["npu_scratch_bytes"] == parse_payload(program.payloads.segments[0].payload).scratch_bytes
