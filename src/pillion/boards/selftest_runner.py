# SPDX-License-Identifier: Apache-2.0
"""Builds and runs the self-test of a C project, in the emulator or in a process of this computer."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Collection
from pathlib import Path

from pillion.boards.board import OPTIMIZE_FLAGS, Board
from pillion.boards.build import Compiler, Sources, compile_objects, link_objects
from pillion.boards.firmware import C_FLAGS, Firmware, read_firmware
from pillion.boards.project_layout import HARNESS_FOLDER, SELFTEST_FOLDER, host_folder
from pillion.boards.qemu import link_firmware
from pillion.boards.toolchain import QEMU, host_compiler
from pillion.errors import PillionError
from pillion.host_io.process_guard import run_to_end
from pillion.option_values import Optimize

SOURCES = ("main.c", "selftest.c")
HEADERS = ("selftest.h", "../harness/harness.h", "../harness/semihosting.h")
COMPLETED_CODES = (0, 1)
"""The exit codes of a completed self-test: no difference, or a difference."""


def run_selftest(
    folder: Path, board: Board | None, files: Collection[str], optimize: Optimize, timeout: float
) -> str:
    """Returns the output of the self-test on a board, or on this computer if none is given."""
    _require_selftest(folder)
    command = (
        _board_selftest_command(folder, board, files, optimize)
        if board
        else [str(_host_selftest_program(folder, files, optimize))]
    )
    where = board.name if board else "this computer"
    try:
        status, printed = run_to_end(command, folder, timeout)
    except subprocess.TimeoutExpired:
        raise _damaged_selftest_error(
            where, f"it did not end within {timeout:g} s", "give more --timeout, or fewer samples"
        ) from None
    text = printed.decode("utf-8", "replace")
    if status not in COMPLETED_CODES:
        here = f"status {status}\n{text.strip()[-400:]}"
        raise _damaged_selftest_error(
            where, here, "`pillion run --on` the same place says more: a fault, or a project that was changed"
        )
    return text


def _require_selftest(folder: Path) -> None:
    missing = [name for name in ("selftest.h", *SOURCES) if not (folder / SELFTEST_FOLDER / name).is_file()]
    if missing:
        raise PillionError(
            f"{folder} has no self-test",
            rule=f"a project that was compiled with --selftest has {SELFTEST_FOLDER}/",
            here=f"missing: {', '.join(missing)}",
            help=f"pillion compile … --selftest samples.npz -o {folder}",
        )


def _damaged_selftest_error(where: str, here: str, help: str) -> PillionError:
    return PillionError(
        f"the self-test on {where} broke off", rule="it ends with 0 or 1", here=here, help=help
    )


def _selftest_sources(parts: Firmware) -> Sources:
    """Returns the test and its main program, which include the model's headers as the harness does."""
    folder = parts.folder / SELFTEST_FOLDER
    headers = [*HEADERS, *(f"../{HARNESS_FOLDER}/{name}" for name in parts.harness.headers)]
    present = tuple(name for name in dict.fromkeys(headers) if (folder / name).is_file())
    return Sources(folder, SOURCES, present, parts.harness.includes)


def _board_selftest_command(
    folder: Path, board: Board, files: Collection[str], optimize: Optimize
) -> list[str]:
    parts = read_firmware(folder, files)
    image = link_firmware(parts, dataclasses.replace(board, optimize=optimize), _selftest_sources(parts))
    quiet = ("-nographic", "-monitor", "none", "-serial", "none")
    return [QEMU.path(), *board.emulator_arguments, *quiet, "-semihosting-config", "enable=on,target=native", "-kernel", str(image)]  # fmt: skip


def _host_selftest_program(folder: Path, files: Collection[str], optimize: Optimize) -> Path:
    """Returns the self-test for this computer, with the host variant if the project has one."""
    inner = host_folder(folder)
    of_host = None if inner != folder else files
    parts, model = read_firmware(folder, files), read_firmware(inner, of_host)
    compiler = Compiler(host_compiler(), (*OPTIMIZE_FLAGS[optimize], *C_FLAGS, "-DPILLION_HOST"))
    harness = dataclasses.replace(parts.harness, files=("host.c",))
    objects = [
        *compile_objects(compiler, _selftest_sources(parts)),
        *compile_objects(compiler, harness),
        *(object_file for sources in model.inference for object_file in compile_objects(compiler, sources)),
    ]
    return link_objects(compiler, objects, parts.harness.folder, (), "selftest")
