# SPDX-License-Identifier: Apache-2.0
"""C projects build by themselves with make and with CMake: for this computer, for the boards that run them, and two in one."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from example_graphs import samples_of
from faulty_executors import net, program, with_segment
from nightly import part_of
from pillion.boards.board import BOARDS
from pillion.boards.elf import read_elf
from pillion.boards.qemu import build_firmware
from pillion.emitters.c.project import boards_for, instruction_set
from pillion.errors import PillionError
from pillion.program import Program
from pillion.run.executor_list import run_project
from pillion.targets import find_target

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(map(shutil.which, ("cc", "make", "cmake"))), reason="needs a C compiler, make and CMake"
    ),
]

NPU = "imxrt700"
TARGETS = ("cortex-m3", "cortex-m4", "cortex-m33", "cortex-m55", NPU)


def for_target(target: str, name: str = "net") -> Program:
    graph = with_segment() if target == NPU else net()
    return program(graph.replace(name=name), target)


def shell(*command: str, folder: Path, status: int = 0) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def wanted(made: Program, folder: Path) -> bytes:
    """The reference's output for a sample that is written to `input.bin`."""
    inputs = samples_of(made.graph, 1)[0]
    (folder / "input.bin").write_bytes(b"".join(x.tobytes() for x in inputs))
    return b"".join(y.tobytes() for y in made.graph.reference(*inputs))


@pytest.mark.turns(4)
@pytest.mark.parametrize("target", part_of(TARGETS[::-1], 4))
def test_make_run_host(target: str, tmp_path: Path) -> None:
    made = for_target(target)
    folder = made.firmware(tmp_path / "fw")
    output = wanted(made, folder)
    assert '"ticks"' in shell("make", "-s", "run-host", "RUN=profile", folder=folder)
    assert (folder / "output.bin").read_bytes() == output


@pytest.mark.turns(3)
@pytest.mark.parametrize("target", part_of(TARGETS[3:], 2))
def test_cmake_on_this_computer(target: str, tmp_path: Path) -> None:
    made = for_target(target)
    folder = made.firmware(tmp_path / "fw")
    output = wanted(made, folder)
    shell("cmake", "-S", ".", "-B", "b", folder=folder)
    shell("cmake", "--build", "b", folder=folder)
    shell("b/firmware", "profile", folder=folder)
    assert (folder / "output.bin").read_bytes() == output


@pytest.mark.parametrize(
    ("target", "boards"),
    [
        ("cortex-m0plus", list(BOARDS)),
        ("cortex-m33", ["mps2-an386", "mps2-an500", "mps2-an505"]),
        ("cortex-m85", ["mps3-an547"]),
    ],
)
def test_the_boards_of_a_project(target: str, boards: list[str], tmp_path: Path) -> None:
    made = for_target(target)
    assert [board.name for board in boards_for(instruction_set(made.lowered))] == boards
    folder = made.firmware(tmp_path / "fw")
    assert f"boards: {' '.join(boards)}\n" in shell("make", "help", folder=folder)
    for other in set(BOARDS) - set(boards):
        for goal in (other, f"run-{other}"):
            refused = shell("make", goal, folder=folder, status=2)
            assert f"do not run on {other}; they run on: {' '.join(boards)}\n" in refused
        refused = shell("cmake", "-B", other, f"-DPILLION_BOARD={other}", folder=folder, status=1)
        assert f"do not run on {other}" in refused
        assert " ".join(boards) in " ".join(refused.split())


@pytest.mark.turns(5)
@pytest.mark.qemu
@pytest.mark.parametrize("target", part_of(["cortex-m0plus", "cortex-m33", "cortex-m85"], 3))
def test_make_builds_for_all_of_its_boards(target: str, tmp_path: Path) -> None:
    made = for_target(target)
    folder = made.firmware(tmp_path / "fw")
    output = wanted(made, folder)
    for board in boards_for(instruction_set(made.lowered)):
        shell("make", f"run-{board.name}", folder=folder)
        assert (folder / "output.bin").read_bytes() == output
        (folder / "output.bin").unlink()


def test_a_board_that_lacks_the_instructions_is_refused(tmp_path: Path) -> None:
    made = for_target("cortex-m33")
    inputs = samples_of(made.graph, 1)[0]
    with pytest.raises(PillionError) as error:
        made.run(*inputs, on="mps3-an547")
    assert error.value.what == "`net` was compiled for cortex-m33+int8, and mps3-an547 has a cortex-m55"
    assert "DSP" in error.value.rule
    assert error.value.here == "on mps3-an547"
    assert "mps2-an505" in error.value.help
    with pytest.raises(PillionError, match="and mps2-an385 has a cortex-m3"):
        run_project(made.firmware(tmp_path / "fw"), inputs, "mps2-an385")


def test_a_manifest_without_the_kernels_refuses_no_board(tmp_path: Path) -> None:
    """Earlier ones lack them; the linker decides."""
    made = for_target("cortex-m33")
    manifest = made.firmware(tmp_path / "fw") / "manifest.json"
    facts = json.loads(manifest.read_text())
    assert facts.pop("kernels") == "dsp"
    manifest.write_text(json.dumps(facts))
    with pytest.raises(PillionError, match="linking"):
        run_project(manifest.parent, samples_of(made.graph, 1)[0], "mps2-an385")


def test_size_is_compiled_for_size_by_make_and_cmake(tmp_path: Path) -> None:
    folder = Program(net(), find_target("cortex-m33"), optimize="size").firmware(tmp_path / "fw")
    board = "mps2-an505"
    assert " -Os " in shell("make", "-n", board, folder=folder)
    shell("cmake", "-B", "b", f"-DPILLION_BOARD={board}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", folder=folder)
    commands = [
        entry["command"].split() for entry in json.loads((folder / "b/compile_commands.json").read_text())
    ]
    levels = [[word for word in command if word.startswith("-O")][-1] for command in commands]
    assert set(levels) == {"-Os"}


@pytest.mark.parametrize("target", TARGETS)
def test_every_line_of_the_header_begins_at_the_left(target: str) -> None:
    header = str(for_target(target).files["model/model.h"])
    assert not [line for line in header.splitlines() if line.startswith("  ")]


CMAKE_OF_TWO = """
cmake_minimum_required(VERSION 3.13)
project(app C)
add_subdirectory(one)
add_subdirectory(two)
add_executable(app app.c ${HARNESS})
target_compile_options(app PRIVATE -Wall -Wextra -Wconversion -Werror)
target_link_libraries(app pillion_one pillion_two)
"""

TWO_IN_ONE = """
#include "one/model/model.h"
#include "two/model/model.h"

#include <stddef.h>

_Alignas(16) static uint8_t arena[ONE_ARENA_BYTES > TWO_ARENA_BYTES ? ONE_ARENA_BYTES : TWO_ARENA_BYTES];
static const pillion_model *const models[] = {&pillion_model_one, &pillion_model_two};
extern int read_sample(void *to, uint32_t bytes);
extern int write_result(const void *from, uint32_t bytes);

int main(void) {
    int failed = 0;
    for (int i = 0; i < 2; i++) {
        const pillion_model *const m = models[i];
        failed |= read_sample(arena + m->inputs[0].offset, m->inputs[0].bytes);
        m->run(arena, NULL);
        failed |= write_result(arena + m->outputs[0].offset, m->outputs[0].bytes);
    }
    return failed;
}
"""

FILES = """
#include <stdint.h>
#include <stdio.h>

int read_sample(void *to, uint32_t bytes);
int write_result(const void *from, uint32_t bytes);
int read_sample(void *to, uint32_t bytes) { return fread(to, 1, bytes, stdin) != bytes; }
int write_result(const void *from, uint32_t bytes) { return fwrite(from, 1, bytes, stdout) != bytes; }
"""


def two_in_one(folder: Path, target: str, other: str) -> bytes:
    """A project of two models, whose sample is in `input.bin`; gives the bytes that are wanted of them."""
    folder.mkdir()
    made = [for_target(target, "one"), for_target(other, "two")]
    for one in made:
        one.firmware(folder / one.graph.name)
    outputs = [wanted(one, folder / one.graph.name) for one in made]
    samples = [(folder / one.graph.name / "input.bin").read_bytes() for one in made]
    (folder / "input.bin").write_bytes(b"".join(samples))
    (folder / "CMakeLists.txt").write_text(CMAKE_OF_TWO)
    (folder / "app.c").write_text(TWO_IN_ONE)
    (folder / "files.c").write_text(FILES)
    return b"".join(outputs)


TWO_TARGETS = [("cortex-m33", "cortex-m33"), (NPU, NPU), (NPU, "cortex-m33")]


@pytest.mark.parametrize(("target", "other"), part_of(TWO_TARGETS[::-1], 3))
@pytest.mark.nightly
def test_two_models_share_an_arena_on_this_computer(target: str, other: str, tmp_path: Path) -> None:
    folder = tmp_path / "app"
    outputs = two_in_one(folder, target, other)
    shell("cmake", "-B", "b", "-DHARNESS=files.c", folder=folder)
    shell("cmake", "--build", "b", folder=folder)
    with (folder / "input.bin").open("rb") as stream:
        done = subprocess.run(["b/app"], cwd=folder, stdin=stream, capture_output=True, check=True)
    assert done.stdout == outputs


@pytest.mark.turns(2)
@pytest.mark.qemu
@pytest.mark.parametrize(("target", "other"), part_of(TWO_TARGETS[::-1], 3))
def test_two_models_link_for_a_core(target: str, other: str, tmp_path: Path) -> None:
    folder = tmp_path / "app"
    two_in_one(folder, target, other)
    flags = {
        "CMAKE_SYSTEM_NAME": "Generic",
        "CMAKE_SYSTEM_PROCESSOR": "arm",
        "CMAKE_C_COMPILER": "arm-none-eabi-gcc",
        "CMAKE_TRY_COMPILE_TARGET_TYPE": "STATIC_LIBRARY",
        "CMAKE_C_FLAGS": "-mcpu=cortex-m33 -mfloat-abi=hard -mthumb",
        "CMAKE_EXE_LINKER_FLAGS": "-nostdlib -Wl,-e,main -Wl,--defsym=read_sample=0 -Wl,--defsym=write_result=0",
        "CMAKE_C_STANDARD_LIBRARIES": "-lgcc",
        "HARNESS": "one/harness/memory.c",
    }
    shell("cmake", "-B", "b", *(f"-D{name}={value}" for name, value in flags.items()), folder=folder)
    shell("cmake", "--build", "b", folder=folder)
    kernels = {symbol.name for symbol in read_elf(folder / "b" / "app").symbols.values()}
    assert {"one_run", "two_run"} <= kernels
    assert any(name.endswith("_dsp") for name in kernels)


@pytest.mark.qemu
@pytest.mark.nightly
def test_cmake_makes_the_sections_that_python_makes(tmp_path: Path) -> None:
    folder, board = for_target("cortex-m33").firmware(tmp_path / "fw"), BOARDS["mps2-an505"]
    shell("cmake", "-B", "b", f"-DPILLION_BOARD={board.name}", folder=folder)
    shell("cmake", "--build", "b", folder=folder)
    ours, theirs = read_elf(build_firmware(folder, board)), read_elf(folder / "b" / "firmware.elf")
    assert (ours.code, ours.constants, ours.arena) == (theirs.code, theirs.constants, theirs.arena)
