# SPDX-License-Identifier: Apache-2.0
"""The programs that compile and run C: where they are, and what to install when they are missing."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache

from pillion.errors import PillionError


@dataclass(frozen=True)
class Tool:
    """A program on the PATH under one of `names`; `package` is what brings it on Debian and Ubuntu."""

    purpose: str
    names: tuple[str, ...]
    package: str

    def find(self) -> str | None:
        """Gives the path of the program, or None where it is missing."""
        return next((path for path in map(shutil.which, self.names) if path), None)

    def path(self) -> str:
        """Gives the path of the program; where it is missing, raises with the package that brings it."""
        found = self.find()
        if found is None:
            raise PillionError(
                f"no {self.purpose} was found",
                rule="one of these programs must be on the PATH: " + ", ".join(self.names),
                here="PATH=" + os.environ.get("PATH", ""),
                help=f"sudo apt-get install {self.package}",
            )
        return found


ARM_COMPILER = Tool("C compiler for Arm Cortex-M", ("arm-none-eabi-gcc",), "gcc-arm-none-eabi")
DISASSEMBLER = Tool("disassembler for Arm Cortex-M", ("arm-none-eabi-objdump",), "binutils-arm-none-eabi")
QEMU = Tool("emulator for Arm machines", ("qemu-system-arm",), "qemu-system-arm")
HOST_COMPILER = Tool("C compiler for this computer", ("cc", "gcc", "clang"), "gcc")


def arm_compiler() -> tuple[str, ...]:
    """Gives the command that compiles and links for a board."""
    return (ARM_COMPILER.path(),)


def host_compiler() -> tuple[str, ...]:
    """Gives the command that compiles and links for this computer: what the variable CC says, else the system's."""
    chosen = shlex.split(os.environ.get("CC", ""))
    if not chosen:
        return (HOST_COMPILER.path(),)
    return (Tool(HOST_COMPILER.purpose, (chosen[0],), chosen[0]).path(), *chosen[1:])


@cache
def version(command: tuple[str, ...]) -> str:
    """Asks a compiler for its version, which is part of the key of everything that it made."""
    return subprocess.run([*command, "--version"], capture_output=True, text=True, check=False).stdout
