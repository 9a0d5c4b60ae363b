# SPDX-License-Identifier: Apache-2.0
"""The programs that compile and run C: where they are, and what to install when they are missing."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache

from pillion.errors import PillionError


@dataclass(frozen=True)
class Tool:
    """A program on the PATH under one of `names`; `package` is what brings it on Debian and Ubuntu."""

    purpose: str
    names: tuple[str, ...]
    package: str
    macos: str = ""
    """The command that brings it on macOS."""
    conda: str = ""
    """The packages of conda-forge that bring it, where there are some."""

    @property
    def ways(self) -> dict[str, str]:
        """Gives the commands that install it, by system."""
        ways = {
            "Debian, Ubuntu": f"sudo apt-get install {self.package}",
            "macOS": self.macos,
            "conda": f"conda install -c conda-forge {self.conda}"
            if self.conda
            else "no package that was tried: install it as above",
        }
        return {system: way for system, way in ways.items() if way}

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
                help=self.ways.get("macOS" if sys.platform == "darwin" else "", self.ways["Debian, Ubuntu"]),
            )
        return found


ARM_COMPILER = Tool(
    "C compiler for Arm Cortex-M",
    ("arm-none-eabi-gcc",),
    "gcc-arm-none-eabi libnewlib-arm-none-eabi",
    "brew install --cask gcc-arm-embedded",
)
DISASSEMBLER = Tool(
    "disassembler for Arm Cortex-M",
    ("arm-none-eabi-objdump",),
    "binutils-arm-none-eabi",
    "brew install --cask gcc-arm-embedded",
)
QEMU = Tool("emulator for Arm machines", ("qemu-system-arm",), "qemu-system-arm", "brew install qemu")
HOST_COMPILER = Tool(
    "C compiler for this computer",
    ("cc", "gcc", "clang"),
    "gcc libc6-dev",
    "xcode-select --install",
    "c-compiler",
)
CXX = Tool(
    "C++ compiler for this computer",
    ("g++", "clang++", "c++"),
    "g++",
    "xcode-select --install",
    "cxx-compiler",
)


def arm_compiler() -> tuple[str, ...]:
    """Gives the command that compiles and links for a board."""
    return (ARM_COMPILER.path(),)


def host_compiler() -> tuple[str, ...]:
    """Gives the command that compiles and links for this computer: what the variable CC says, else the system's."""
    chosen = shlex.split(os.environ.get("CC", ""))
    if not chosen:
        return (HOST_COMPILER.path(),)
    return (Tool(HOST_COMPILER.purpose, (chosen[0],), chosen[0]).path(), *chosen[1:])


@dataclass(frozen=True)
class Processor:
    """This computer's processor, as a compiler sees it that is told to use all of it."""

    flags: tuple[str, ...]
    """What tells the compiler so; none where it does not know how."""
    macros: str
    """All that it defines then: vectors of every kind have a macro."""

    def has(self, *names: str) -> bool:
        """Whether these macros are defined."""
        return all(f"#define {name} " in self.macros for name in names)

    @property
    def has_vectors(self) -> bool:
        """Whether the kernels for computers run on it: those of AVX2, of which there are better ones too."""
        return self.has("__x86_64__", "__AVX2__", "__FMA__")


@cache
def processor(command: tuple[str, ...]) -> Processor:
    """Asks a compiler what this computer's processor has."""
    for flag in ("-march=native", "-mcpu=native"):
        asked = [*command, flag, "-dM", "-E", "-x", "c", os.devnull]
        done = subprocess.run(asked, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode == 0:
            return Processor((flag,), "\n".join(sorted(done.stdout.splitlines())))
    return Processor((), "")


@cache
def version(command: tuple[str, ...]) -> str:
    """Asks a compiler for its version, which is part of the key of everything that it made."""
    return subprocess.run([*command, "--version"], capture_output=True, text=True, check=False).stdout
