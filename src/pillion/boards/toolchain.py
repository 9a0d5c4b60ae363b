# SPDX-License-Identifier: Apache-2.0
"""Finds the programs that compile and run C, and names the package of a missing one."""

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
    """A program on the PATH under one of `names`; `package` contains it on Debian and Ubuntu."""

    purpose: str
    names: tuple[str, ...]
    package: str
    macos: str = ""
    """The command that installs it on macOS."""
    conda: str = ""
    """The conda-forge packages that contain it, if any."""

    @property
    def ways(self) -> dict[str, str]:
        """The commands that install it, by system."""
        ways = {
            "Debian, Ubuntu": f"sudo apt-get install {self.package}",
            "macOS": self.macos,
            "conda": f"conda install -c conda-forge {self.conda}"
            if self.conda
            else "no package that was tried: install it as above",
        }
        return {system: command for system, command in ways.items() if command}

    def find(self) -> str | None:
        """Returns the path of the program, or None."""
        return next((path for path in map(shutil.which, self.names) if path), None)

    def path(self) -> str:
        """Returns the path of the program; raises with its package if it is missing."""
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
    """Returns the compiler command for a board."""
    return (ARM_COMPILER.path(),)


def host_compiler() -> tuple[str, ...]:
    """Returns the compiler command for this computer: the variable CC, else the system's compiler."""
    chosen = shlex.split(os.environ.get("CC", ""))
    if not chosen:
        return (HOST_COMPILER.path(),)
    return (Tool(HOST_COMPILER.purpose, (chosen[0],), chosen[0]).path(), *chosen[1:])


@dataclass(frozen=True)
class Processor:
    """This computer's processor as a compiler with all instructions enabled sees it."""

    flags: tuple[str, ...]
    """The flags that enable all instructions; empty if the compiler has none."""
    macros: str
    """All macros that the compiler then defines; each vector extension has one."""

    def has(self, *names: str) -> bool:
        """Whether these macros are defined."""
        return all(f"#define {name} " in self.macros for name in names)

    @property
    def has_vectors(self) -> bool:
        """Whether the processor runs the host kernels, which need AVX2 and FMA."""
        return self.has("__x86_64__", "__AVX2__", "__FMA__")


@cache
def compiler_view_of_processor(command: tuple[str, ...]) -> Processor:
    """Returns a compiler's view of this computer's processor."""
    for flag in ("-march=native", "-mcpu=native"):
        arguments = [*command, flag, "-dM", "-E", "-x", "c", os.devnull]
        done = subprocess.run(arguments, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode == 0:
            return Processor((flag,), "\n".join(sorted(done.stdout.splitlines())))
    return Processor((), "")


@cache
def compiler_version(command: tuple[str, ...]) -> str:
    """Returns a compiler's version, a part of the cache key."""
    return subprocess.run([*command, "--version"], capture_output=True, text=True, check=False).stdout
