# SPDX-License-Identifier: Apache-2.0
"""Disassembles a linked firmware."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pillion.boards.toolchain import DISASSEMBLER
from pillion.errors import PillionError

# Vector instructions are disassembled only for a named architecture.
ARCHITECTURES = {"cortex-m55": "armv8.1-m.main"}
_LINE = re.compile(r"\s*([0-9a-f]+):\t([0-9a-f ]+?)\s*\t(.*)")


@dataclass(frozen=True)
class DisassembledInstruction:
    """The text and the length of one instruction."""

    text: str
    bytes: int


def disassemble(image: Path, core: str) -> Mapping[int, DisassembledInstruction]:
    """Returns the instructions of a firmware's code by address."""
    architecture = ("-m", ARCHITECTURES[core]) if core in ARCHITECTURES else ()
    command = [DISASSEMBLER.path(), "-d", *architecture, str(image)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    matches = [_LINE.match(line) for line in done.stdout.splitlines()]
    instructions = {
        int(line[1], 16): DisassembledInstruction(
            line[3].replace("\t", " "), len(line[2].replace(" ", "")) // 2
        )
        for line in matches
        if line
    }
    if done.returncode or not instructions:
        raise PillionError(
            f"{image} cannot be disassembled",
            rule=" ".join(command),
            here=done.stderr.strip() or "no instructions were found",
            help="install the binutils that belong to the compiler",
        )
    return instructions
