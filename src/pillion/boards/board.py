# SPDX-License-Identifier: Apache-2.0
"""The emulated boards, and the files that a firmware needs on them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, cached_property
from importlib import resources
from types import MappingProxyType

from pillion.boards.project_layout import HARNESS_FOLDER, HOST_FOLDER
from pillion.errors import PillionError
from pillion.option_values import Optimize

# Measured with GCC 12.2 on 3x3 convolution, depthwise and linear kernels in portable C, on all five boards:
# -O3 takes 2 to 4 % more instructions than -O2 and 8 to 10 % more code; -Os takes 64 to 101 % more and 18 %
# less.
OPTIMIZE_FLAGS: Mapping[Optimize, tuple[str, ...]] = MappingProxyType({"speed": ("-O2",), "size": ("-Os",)})


@dataclass(frozen=True)
class BoardRegion:
    """A memory of a board, by its name in the linker script."""

    name: str
    origin: int
    bytes: int


@dataclass(frozen=True)
class Board:
    """A machine that QEMU emulates. `tick_ns` is the length of its SysTick tick in nanoseconds."""

    name: str
    machine: str
    core: str
    cflags: tuple[str, ...]
    tick_ns: float
    linker_script: str
    optimize: Optimize = "speed"
    options: tuple[str, ...] = ()
    """Further arguments of the emulator."""

    @property
    def emulator_arguments(self) -> tuple[str, ...]:
        """The emulator's arguments that select this machine."""
        return ("-M", self.machine, *self.options)

    @cached_property
    def regions(self) -> Mapping[str, BoardRegion]:
        """CODE, CONSTANTS, DATA, ARENA and further memories, read from the linker script."""
        script = firmware_files()[f"{HARNESS_FOLDER}/{self.linker_script}"]
        matches = re.findall(
            r"^\s*(\w+)\s*\(\w+\)\s*: ORIGIN = (0x[0-9a-f]+), LENGTH = (\d+)([KM])", script, re.MULTILINE
        )
        scale = {"K": 1 << 10, "M": 1 << 20}
        regions = (
            BoardRegion(name, int(at, 16), int(size) * scale[unit]) for name, at, size, unit in matches
        )
        return MappingProxyType({region.name: region for region in regions})


def _mps_board(name: str, core: str, tick_ns: float, *cflags: str) -> Board:
    return Board(name, name, core, (*cflags, "-mthumb"), tick_ns, f"{name}.ld")


# A micro:bit has 16 KB of RAM and 256 KB of flash; the emulator can add more.
_MORE_MEMORY = ("-global", "nrf51-soc.sram-size=0x400000", "-global", "nrf51-soc.flash-size=0x1400000")
_MICROBIT = ("-mcpu=cortex-m0", "-mfloat-abi=soft", "-mthumb")

_ALL = (
    Board("microbit", "microbit", "cortex-m0", _MICROBIT, 62.5, "microbit.ld", options=_MORE_MEMORY),
    _mps_board("mps2-an385", "cortex-m3", 40.0, "-mcpu=cortex-m3", "-mfloat-abi=soft"),
    _mps_board("mps2-an386", "cortex-m4", 40.0, "-mcpu=cortex-m4", "-mfloat-abi=hard"),
    _mps_board("mps2-an500", "cortex-m7", 40.0, "-mcpu=cortex-m7", "-mfloat-abi=hard"),
    _mps_board("mps2-an505", "cortex-m33", 50.0, "-mcpu=cortex-m33", "-mfloat-abi=hard"),
    _mps_board("mps3-an547", "cortex-m55", 31.25, "-mcpu=cortex-m55", "-mfloat-abi=hard"),
)
BOARDS: Mapping[str, Board] = MappingProxyType({board.name: board for board in _ALL})


def find_board(name: str) -> Board:
    """Returns the board of this name; raises if it does not exist."""
    if name in BOARDS:
        return BOARDS[name]
    close = get_close_matches(name, BOARDS, n=1)
    raise PillionError(
        f"there is no board `{name}`",
        rule="the boards are " + ", ".join(f"{b.name} ({b.core})" for b in _ALL),
        here=name,
        help=f"did you mean {close[0]}?" if close else "use one of these names",
    )


def wrong_core_error(what: str, core: str, board: Board, *, rule: str, here: str, help: str) -> PillionError:
    """Returns the error for a program compiled for a core that the board cannot run."""
    return PillionError(
        f"{what} was compiled for {core}, and {board.name} has a {board.core}",
        rule=rule,
        here=here,
        help=help,
    )


_PLACE = re.compile(r"@(\w+)@")
"""A placeholder in the text of a file."""


def firmware_files(
    model: str = "model",
    boards: Iterable[str] = tuple(BOARDS),
    optimize: Optimize = "speed",
    sources: Iterable[str] = (),
    selftest: Iterable[str] = (),
) -> Mapping[str, str]:
    """Returns path → text of the files around a model in its project: build files, and the harness in its folder.
    `boards` are the boards that can run it, `sources` the C files of the model, its stand-ins and their kernels,
    `selftest` the self-test's."""
    facts = {
        **_placeholder_values(model, [find_board(name) for name in boards], optimize),
        **_source_placeholders(list(sources)),
    }
    facts["selftest"] = " ".join(selftest)
    return {
        path: _PLACE.sub(lambda match: facts[match[1]], text) for path, text in _harness_templates().items()
    }


def selftest_main(model: str) -> str:
    """Returns the text of the program that runs a model's self-test, on boards and on computers."""
    file = resources.files("pillion.boards") / "selftest" / "main.c"
    return file.read_text("utf-8").replace("@model@", model)


@cache
def _harness_templates() -> Mapping[str, str]:
    """Returns the files with their placeholders."""
    folder = resources.files("pillion.boards") / "data"
    folders = {"": folder, f"{HARNESS_FOLDER}/": folder / HARNESS_FOLDER}
    files = {f"{at}{file.name}": file for at, directory in folders.items() for file in directory.iterdir()}
    return {path: file.read_text("utf-8") for path, file in sorted(files.items()) if file.is_file()}


def _placeholder_values(model: str, boards: list[Board], optimize: Optimize) -> Mapping[str, str]:
    """Returns the placeholders' values by name."""
    return {
        "model": model,
        "MODEL": model.upper(),
        "optimize": " ".join(OPTIMIZE_FLAGS[optimize]),
        "boards": " ".join(board.name for board in boards),
        "other_boards": " ".join(board.name for board in _ALL if board not in boards),
        "make_cores": "\n".join(
            f"{name}_{board.name} := {value}"
            for board in boards
            for name, value in {
                **_core_placeholders(board),
                "MACHINE": " ".join(board.emulator_arguments),
            }.items()
        ),
        "cmake_cores": "\n".join(
            f"  set({name.lower()}_{board.name} {value})"
            for board in boards
            for name, value in _core_placeholders(board).items()
        ),
    }


def _source_placeholders(sources: list[str]) -> Mapping[str, str]:
    """Returns the core's sources, and the sources of the host variant in its folder."""
    return {
        "sources": " ".join(path for path in sources if not path.startswith(f"{HOST_FOLDER}/")),
        "host_sources": " ".join(path for path in sources if path.startswith(f"{HOST_FOLDER}/")),
    }


def _core_placeholders(board: Board) -> Mapping[str, str]:
    return {"CPU": " ".join(board.cflags), "TICK": f"{board.tick_ns:g}"}
