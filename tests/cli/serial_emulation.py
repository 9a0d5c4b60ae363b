# SPDX-License-Identifier: Apache-2.0
"""Builds the serial harness of a project for an emulated board, whose UART is a pseudo-terminal of this computer."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from pillion.boards.board import Board
from pillion.boards.build import Sources
from pillion.boards.firmware import read_firmware
from pillion.boards.project_layout import SELFTEST_FOLDER, SERIAL_FOLDER
from pillion.boards.qemu import link_firmware
from pillion.boards.toolchain import QEMU

_START_SECONDS = 30.0


def build_serial(folder: Path, board: Board, files: Collection[str]) -> Path:
    """Returns the linked program of the serial harness, an ELF file."""
    parts = read_firmware(folder, files)
    at = parts.folder / SERIAL_FOLDER
    tests = (f"../{SELFTEST_FOLDER}/selftest.c",) * (f"{SELFTEST_FOLDER}/selftest.c" in files)
    headers = [path for path in files if path.endswith(".h") and not path.startswith("host/")]
    sources = Sources(at, ("main.c", "board_port.c", *tests), tuple(f"../{path}" for path in headers), parts.harness.includes)  # fmt: skip
    return link_firmware(parts, board, sources)


@contextmanager
def emulated_port(image: Path, board: Board) -> Iterator[str]:
    """Starts the emulator for a block, and yields the name of the board's port."""
    command = [
        QEMU.path(),
        *board.emulator_arguments,
        "-display",
        "none",
        "-monitor",
        "none",
        "-serial",
        "pty",
    ]
    command += ["-semihosting-config", "enable=on,target=native", "-icount", "shift=7", "-kernel", str(image)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as emulator:
        try:
            assert emulator.stdout is not None
            printed = ""
            deadline = time.monotonic() + _START_SECONDS
            while time.monotonic() < deadline and (line := emulator.stdout.readline()):
                printed += line
                if match := re.search(r"redirected to (\S+)", line):
                    yield match[1]
                    return
            raise AssertionError(f"the emulator names no pseudo-terminal: {printed}")
        finally:
            emulator.kill()
