# SPDX-License-Identifier: Apache-2.0
"""Program images as delegates of ExecuTorch programs, in the installed runtime: one library with all kernels runs a table of programs."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import pickle
import re
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import pillion
from emitters.test_c import GROUPS, group_graph
from emitters.test_image import answers, raw, two_branches
from ethos_streams import needs_vela
from example_graphs import samples_of
from partition.test_widths_on_the_core import ETHOS, SAMPLES, compiled, layers
from pillion.compile_options import Memory, Stream
from pillion.devices.cortex_m import CORES
from pillion.emitters.c.lower import CProgram, lower
from pillion.emitters.image import kernel_set
from pillion.emitters.image.kernel_set import kernel_set_files, kernels_of_core, write_kernel_set
from pillion.emitters.image.writer import image_bytes
from pillion.emitters.image_delegate import emit_with_images
from pillion.emitters.pte.lower import LoweredProgram
from pillion.emitters.pte.node import Delegate, contiguous_view
from pillion.emitters.pte.writer import Writer
from pillion.errors import PillionError
from pillion.importers.pte import delegates_in
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Array
from pillion.ops import parse
from pillion.program import Program
from pillion.schemas.pte import PILLION_BACKEND
from pillion.schemas.pte_record import compose_record
from pillion.streams.to_stream import to_stream_graph
from pillion.targets import find_target
from stateful_graphs import KINDS_OF_ENDS, QUEUE
from streams.test_hop_in_c import calls_of, net
from tiling.test_row_input import by_rows, picture, whole

EXECUTORCH = importlib.util.find_spec("executorch")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.torch,
    pytest.mark.skipif(EXECUTORCH is None, reason="pip install 'pillion[executorch]'"),
    pytest.mark.skipif(shutil.which("cmake") is None or shutil.which("g++") is None, reason="missing: cmake"),
]
CORE = "cortex-m3"
SCRIPT = Path(__file__).parents[1] / "data" / "images" / "in_executorch.py"
PROJECT = """
cmake_minimum_required(VERSION 3.19)
project(firmware C CXX)
add_library(executorch_core INTERFACE)
target_include_directories(executorch_core SYSTEM INTERFACE INCLUDE_FOLDER INCLUDE_FOLDER/executorch/runtime/core/portable_type/c10)
target_compile_definitions(executorch_core INTERFACE C10_USING_CUSTOM_GENERATED_MACROS ET_EVENT_TRACER_ENABLED)
add_subdirectory(kernels)
file(WRITE ${CMAKE_BINARY_DIR}/empty.c "")
add_library(firmware SHARED ${CMAKE_BINARY_DIR}/empty.c)
target_link_libraries(firmware PRIVATE pillion_backend m)
"""
Job = tuple[bytes, list[list[Array]]]


def executed(library: Path | None, jobs: list[Job], *mode: str | Path) -> tuple[list[bytes | str], str]:
    """What each program computed, or why not, and what the runtime said."""
    command = [sys.executable, str(SCRIPT), str(library or ""), *map(str, mode)]
    done = subprocess.run(command, input=pickle.dumps(jobs), capture_output=True, check=True)
    return pickle.loads(done.stdout), done.stderr.decode()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The delegate with the kernels of Cortex-M3, which are C. The first worker that needs it builds it for all."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    made = shared / "delegate" / "build" / "libfirmware.so"
    with (shared / "delegate.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            build_library(shared / "delegate")
    return made


def build_library(folder: Path) -> None:
    """Builds the delegate with CMake like a firmware, without warnings."""
    assert EXECUTORCH is not None
    core = CORES[CORE]
    write_kernel_set(kernel_set_files(kernels_of_core(core), core, delegate=True), folder / "kernels")
    include = Path(next(iter(EXECUTORCH.submodule_search_locations or ()))) / "include"
    (folder / "CMakeLists.txt").write_text(PROJECT.replace("INCLUDE_FOLDER", str(include)))
    flags = "-DCMAKE_CXX_FLAGS=-Werror", "-DCMAKE_C_FLAGS=-Werror -O1"
    for arguments in (("-S", folder, "-B", folder / "build", *flags), ("--build", folder / "build", "-j2")):
        done = cmake(*arguments)
        assert done.returncode == 0, done.stderr


def cmake(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["cmake", *map(str, arguments)], check=False, capture_output=True, text=True)


def test_cmake_finds_executorch_headers_or_names_them(library: Path, tmp_path: Path) -> None:
    kernels = library.parents[1] / "kernels"
    found = cmake("-S", kernels, "-B", tmp_path / "found", f"-DEXECUTORCH_INCLUDE={tmp_path}")
    assert found.returncode == 0, found.stderr
    lacking = cmake("-S", kernels, "-B", tmp_path / "lacking")
    assert lacking.returncode != 0
    assert "ExecuTorch is missing" in lacking.stderr


def lowered_cases() -> dict[str, CProgram]:
    groups = {
        f"group {n}, {arithmetic.value}": lower(group_graph(n, arithmetic))
        for n in range(len(GROUPS))
        for arithmetic in (Arithmetic.CMSIS_NN, Arithmetic.TFLITE)
    }
    states = {"filled states": lower(parse(QUEUE)), "copied states": lower(parse(KINDS_OF_ENDS))}
    return groups | states


@pytest.mark.turns(8)
def test_programs_give_the_reference_and_need_no_more_memory(library: Path) -> None:
    programs = {**lowered_cases(), "branches": two_branches().lowered}
    jobs = [(emit_with_images(p, CORE), samples_of(p.graph)) for p in programs.values()]
    outputs, said = executed(library, jobs)
    for (name, program), (_, samples), found in zip(programs.items(), jobs, outputs, strict=True):
        assert found == answers(program.graph, samples), (name, said)


@pytest.mark.turns(2)
def test_stripes_run_and_rows_are_refused(library: Path, tmp_path: Path) -> None:
    plain = whole(CORE)
    tiled = plain.within(Memory(extra="100%"))
    assert tiled.stripes
    inputs = [picture(plain, 1)]
    (found,), said = executed(library, [(tiled.pte(kernels="pillion"), [inputs])])
    assert found == answers(plain.graph, [inputs]), said
    with pytest.raises(PillionError, match="cannot hand rows"):
        by_rows(plain, extra="100%").save(tmp_path / "net.pte", kernels="pillion")


def damaged(pte: bytes, change: Callable[[bytearray], None]) -> bytes:
    """The program with a changed image; its checksum is right again."""
    raw, at = bytearray(pte), pte.index(b"PLM1")
    size = struct.unpack_from("<I", raw, at + 8)[0]
    image = raw[at : at + size]
    change(image)
    struct.pack_into("<I", image, 12, zlib.crc32(image[16:]))
    raw[at : at + size] = image
    return bytes(raw)


def test_runtimes_say_why_they_refuse(library: Path) -> None:
    program = lower(parse(QUEUE))
    pte, samples = emit_with_images(program, CORE), samples_of(program.graph)
    flipped = bytearray(pte)
    flipped[pte.index(b"PLM1") + 200] ^= 1
    cases: dict[str, bytes] = {
        "damaged": bytes(flipped),
        "another version of the kernels": damaged(pte, lambda image: struct.pack_into("<I", image, 16, 7)),
        "another core": damaged(pte, lambda image: struct.pack_into("<I", image, 20, 15)),
        "breaks the rules": damaged(pte, lambda image: struct.pack_into("<I", image, 24, 0)),
    }
    found, said = executed(library, [(content, samples) for content in cases.values()])
    assert all("30" in str(answer) for answer in found), found
    refusals = re.findall(r"PillionBackend: the image.*", said)
    for words, refusal in zip(cases, refusals, strict=True):
        assert words in refusal
    (found,), said = executed(None, [(pte, samples)])
    assert "PillionBackend is not registered" in said
    assert "failed" in str(found).lower()


class Net(torch.nn.Module):
    """Two convolutions for an NPU, and ops for the core before, between and behind them, with a state or without."""

    def __init__(self, is_stateful: bool) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(3, 8, 3), torch.nn.Conv2d(8, 8, 3, padding=1)
        self.register_buffer("past", torch.full((1, 8, 8, 6), 0.25))
        self.is_stateful = is_stateful

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(self.first(x))
        if self.is_stateful:
            self.past.copy_(self.past * 0.5 + torch.erf(y))
            return torch.relu(self.second(torch.erf(self.past))), y
        return torch.relu(self.second(torch.erf(y))), y


@pytest.mark.parametrize(
    ("target", "npu", "is_stateful"),
    [("imxrt700", "NeutronBackend", False), ("mcxn947", "NeutronBackend", True)]
    + [("cortex-m55+ethos-u55-128", "EthosUBackend", True)],
)
@pytest.mark.turns(3)
def test_cpu_and_npu_segments_are_delegates_of_one_program(
    library: Path, tmp_path: Path, target: str, npu: str, is_stateful: bool
) -> None:
    """The installed runtime has an interpreter of NPU segments. The image of a program without NPU is its .plm."""
    torch.manual_seed(0)
    example = torch.randn(1, 3, 10, 8)
    program = pillion.compile(Net(is_stateful).eval(), example, target=target)
    file = program.save(tmp_path / "net.pte", kernels="pillion")
    names = [name for name, _ in delegates_in(file)]
    assert names.count("PillionBackend") >= 2
    assert npu in names
    core = replace(program, target=replace(program.target, core=CORES[CORE]))
    samples = [[np.random.default_rng(n).standard_normal(example.shape).astype(np.float32)] for n in range(3)]
    (found,), said = executed(library, [(core.pte(kernels="pillion"), samples)], "npu")
    assert found == answers(program.graph, samples), said
    plain = pillion.compile(Net(is_stateful).eval(), example, target="cortex-m55")
    ((_, image),) = delegates_in(plain.save(tmp_path / "m55.pte", kernels="pillion"))
    assert image.startswith(plain.image())


@needs_vela
def test_layers_of_the_core_beside_an_npu_read_8_bits(library: Path) -> None:
    program = compiled(ETHOS)
    assert layers(program)
    core = replace(program, target=replace(program.target, core=CORES[CORE]))
    samples = [[x.numpy()] for x in SAMPLES]
    (found,), said = executed(library, [(core.pte(kernels="pillion"), samples)], "npu")
    assert found == answers(program.graph, samples), said


def test_delegate_streams_take_one_call_per_run(library: Path) -> None:
    graph, _ = net(1, (1, 1), "max")
    wish = Stream((("x", 1),), 2)
    program = Program(to_stream_graph(graph, wish), find_target(CORE))
    frames = [[one] for one in calls_of(graph, wish, 40)]
    (found,), said = executed(library, [(program.pte(kernels="pillion"), frames)])
    wanted = program.stream().run(frames)
    size = sum(y.nbytes for y in wanted[-1])
    assert isinstance(found, bytes), said
    assert found[-size * sum(map(bool, wanted)) :] == b"".join(map(raw, wanted))
    slow, _ = net(2, (2, 1), "flatten")
    with pytest.raises(PillionError, match="collects the frames of 2 calls"):
        emit_with_images(lower(to_stream_graph(slow, Stream((("x", 2),), 1))), CORE)


def test_tensors_elsewhere_are_copied_to_an_arena_of_the_temp_allocator(library: Path) -> None:
    """So partitioners call the delegate: with the tensors of the program alone."""
    program = lower(group_graph(0, Arithmetic.CMSIS_NN))
    graph, places, end = program.graph, {}, 0
    for value in (*graph.inputs, *graph.outputs):
        places[value], end = end, end + -(-value.type.size_bytes // 16) * 16
    memory = replace(program.memory, offsets=places, arena_bytes=end)
    tensors = (tuple(map(contiguous_view, values)) for values in (graph.inputs, graph.outputs))
    step = Delegate(PILLION_BACKEND, image_bytes(program, CORE), (), *tensors)
    lowered = LoweredProgram(graph, (step,), memory, {})
    pte = Writer(lowered).program(lambda: compose_record({"core": CORE, "runtime": "1.4", "model": "m"}, b""))
    (found,), said = executed(library, [(pte, samples := samples_of(graph))])
    assert found == answers(graph, samples), said


@pytest.mark.skipif(shutil.which("arm-none-eabi-g++") is None, reason="needs the compiler of the core")
def test_the_guide_has_the_size_of_the_delegate_handle(tmp_path: Path) -> None:
    """The compiler judges the number of the guide: the size of the delegate's handle on a core."""
    page = (Path(__file__).parents[2] / "docs" / "guide" / "executorch-delegate.md").read_text("utf-8")
    said = re.search(r"takes (\d+) bytes from the method allocator", page)
    assert said is not None
    source = f"""#include "pillion_image.h"
struct Handle {{ pillion_image model; bool has_run; void *segments[5]; }};
static_assert(sizeof(Handle) == {said[1]}, "");
"""
    (tmp_path / "size.cpp").write_text(source)
    runtime = Path(kernel_set.__file__).parent / "runtime"
    command = ["arm-none-eabi-g++", "-mcpu=cortex-m33", "-fsyntax-only", f"-I{runtime}", "size.cpp"]
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0
