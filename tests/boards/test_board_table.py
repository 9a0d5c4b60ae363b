# SPDX-License-Identifier: Apache-2.0
"""The table of boards, and that the files of a firmware folder say the same as it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from small_firmware import (
    COUNT,
    ORDINARY_OPS,
    WriteFirmware,
    expected_outputs,
    needs,
    needs_arm_compiler,
    needs_board,
)

from pillion.boards.board import BOARDS, OPTIMIZE_FLAGS, Board, find_board, firmware_files
from pillion.boards.elf import read_elf
from pillion.boards.firmware import C_FLAGS
from pillion.boards.qemu import build_firmware, command_line
from pillion.boards.toolchain import ARM_COMPILER, HOST_COMPILER, QEMU, Tool, host_compiler
from pillion.errors import PillionError

pytestmark = pytest.mark.slow

every_board = pytest.mark.parametrize("board", BOARDS.values(), ids=list(BOARDS))
MAKE, CMAKE = Tool("make", ("make",), "make"), Tool("CMake", ("cmake",), "cmake")


def _run(*command: str, folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "hint"), [("mps2-an55", "mps2-an505"), ("m33", "one of these"), ("", "one of these")]
)
def test_an_unknown_board_is_an_error(name: str, hint: str) -> None:
    with pytest.raises(PillionError, match="there is no board") as error:
        find_board(name)
    assert hint in error.value.help
    assert all(board in error.value.rule for board in BOARDS)


@every_board
def test_a_board_is_found_by_its_name(board: Board) -> None:
    assert find_board(board.name) is board


@every_board
def test_a_board_holds_a_mobilenet_v2(board: Board) -> None:
    """3.5 MB of constants and 1.5 MB of arena; no two memories overlap."""
    assert set(board.regions) >= {"CODE", "DATA", "CONSTANTS", "ARENA"}
    assert board.regions["CONSTANTS"].bytes >= 4_000_000
    assert board.regions["ARENA"].bytes >= 2_000_000
    regions = sorted(board.regions.values(), key=lambda region: region.origin)
    for one, next_one in pairwise(regions):
        assert one.origin + one.bytes <= next_one.origin


@pytest.mark.parametrize(
    ("find", "package"),
    [
        (ARM_COMPILER.path, "gcc-arm-none-eabi libnewlib-arm-none-eabi"),
        (QEMU.path, "qemu-system-arm"),
        (host_compiler, "gcc libc6-dev"),
    ],
)
def test_a_missing_tool_is_an_error(
    find: Callable[[], object], package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(PillionError) as error:
        find()
    assert error.value.help == f"sudo apt-get install {package}"


def test_the_variable_cc_chooses_the_host_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "sh -x")
    assert host_compiler() == (shutil.which("sh"), "-x")


def test_c_files_carry_a_licence() -> None:
    for name, text in firmware_files().items():
        assert "SPDX-License-Identifier: Apache-2.0" in text.splitlines()[0], name


@needs(MAKE)
@every_board
def test_make_builds_as_python_does(write_firmware: WriteFirmware, board: Board) -> None:
    firmware = write_firmware(ORDINARY_OPS)
    printed = _run("make", "-n", board.name, folder=firmware)
    (compile_main,) = (line for line in printed.splitlines() if "-c harness/main.c" in line)
    wanted = {
        *board.cflags,
        *C_FLAGS,
        *OPTIMIZE_FLAGS[board.optimize],
        f"-DPILLION_TICK_NS={board.tick_ns:g}",
    }
    assert wanted <= set(compile_main.split())
    assert str(firmware) not in printed


@needs(MAKE)
@every_board
def test_make_runs_as_python_does(write_firmware: WriteFirmware, board: Board) -> None:
    printed = _run("make", "-n", f"run-{board.name}", "RUN=profile", folder=write_firmware(ORDINARY_OPS))
    qemu = " ".join(printed[printed.index("qemu-system-arm") :].replace("\\\n", " ").split())
    wanted = (
        command_line(Path(f"build/{board.name}/firmware.elf"), board, profile=True) if QEMU.find() else None
    )
    assert wanted is None or qemu.split()[1:] == wanted[1:]


@pytest.mark.turns(3)
@needs(MAKE, ARM_COMPILER, QEMU, HOST_COMPILER)
@pytest.mark.parametrize("where", ["host", "mps2-an386", "mps3-an547"])
def test_make_is_enough_for_a_newcomer(write_firmware: WriteFirmware, where: str) -> None:
    firmware = write_firmware(ORDINARY_OPS)
    (firmware / "input.bin").write_bytes(bytes(2 * COUNT))
    printed = _run("make", "-s", f"run-{where}", "RUN=profile", folder=firmware)
    assert '"name": "scale"' in printed
    assert (firmware / "output.bin").read_bytes() == 2 * b"".join(expected_outputs(bytes(COUNT)))


@needs(MAKE, ARM_COMPILER)
def test_make_size_shows_the_sections(write_firmware: WriteFirmware) -> None:
    firmware = write_firmware(ORDINARY_OPS)
    _run("make", "-s", "mps2-an505", folder=firmware)
    printed = _run("make", "-s", "size", folder=firmware)
    for section in (".text", ".constants", ".pillion_arena", ".startup", ".stack"):
        assert re.search(rf"^{re.escape(section)} ", printed, re.MULTILINE)


@needs(CMAKE, MAKE, HOST_COMPILER)
def test_cmake_on_this_computer(write_firmware: WriteFirmware) -> None:
    firmware = write_firmware(ORDINARY_OPS)
    (firmware / "input.bin").write_bytes(bytes(COUNT))
    _run("cmake", "-B", "build", folder=firmware)
    _run("cmake", "--build", "build", folder=firmware)
    _run("build/firmware", folder=firmware)
    assert (firmware / "output.bin").read_bytes() == b"".join(expected_outputs(bytes(COUNT)))


@pytest.mark.turns(2)
@needs(CMAKE, MAKE)
@needs_board
def test_cmake_for_a_board(write_firmware: WriteFirmware) -> None:
    """The same sections as Python's own build, so that the linker script has recognized CMake's objects."""
    firmware, board = write_firmware(ORDINARY_OPS), BOARDS["mps3-an547"]
    (firmware / "input.bin").write_bytes(bytes(COUNT))
    _run("cmake", "-B", "build", f"-DPILLION_BOARD={board.name}", folder=firmware)
    _run("cmake", "--build", "build", folder=firmware)
    elf = firmware / "build" / "firmware.elf"
    _run(*command_line(elf, board, profile=False), folder=firmware)
    assert (firmware / "output.bin").read_bytes() == b"".join(expected_outputs(bytes(COUNT)))
    ours, theirs = read_elf(build_firmware(firmware, board)), read_elf(elf)
    assert (ours.code, ours.constants, ours.arena) == (theirs.code, theirs.constants, theirs.arena)


@needs(CMAKE)
def test_cmake_names_the_same_cores(write_firmware: WriteFirmware) -> None:
    text = firmware_files()["CMakeLists.txt"]
    for board in BOARDS.values():
        assert f"set(cpu_{board.name} {' '.join(board.cflags)})" in text
        assert f"set(tick_{board.name} {board.tick_ns:g})" in text


@pytest.mark.turns(3)
@needs_arm_compiler
@every_board
def test_float_is_computed_where_the_core_says(write_firmware: WriteFirmware, board: Board) -> None:
    """A core without FPU gets the compiler's own routines and no C library."""
    symbols = read_elf(build_firmware(write_firmware(ORDINARY_OPS), board)).symbols
    assert ("__aeabi_fmul" in symbols) == (board.core in ("cortex-m0", "cortex-m3"))
