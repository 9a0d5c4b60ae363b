# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions and memory accesses of each op of a firmware, exactly, with a plugin of the
emulator."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from pillion.boards import qemu
from pillion.boards.board import Board
from pillion.boards.build import Compiler, cached_file, hash_parts
from pillion.boards.disassembly import DisassembledInstruction, disassemble
from pillion.boards.elf import COPIED_SECTIONS, MEMORY_SECTIONS, ElfSizes, read_elf
from pillion.boards.toolchain import QEMU, compiler_version, host_compiler
from pillion.errors import PillionError
from pillion.host_io.process_guard import run_to_end

PLUGIN, COUNTS = "blocks.so", "blocks.txt"
MARK = "after_op"
"""The function of the harness that the model calls after each op."""
LIBRARY = ("memcpy", "memmove", "memset", "memcmp")
"""C library functions that compilers call implicitly. They are linked with the harness, because any program
has them."""
TOUCHED = (".constants", ".pillion_arena", *MEMORY_SECTIONS, *COPIED_SECTIONS)
"""The sections whose accesses are counted."""
RUN, RUNS = re.compile(rb'^\{"op": (\d+),', re.MULTILINE), "runs "
"""The harness's report of the op that a mark ends, and the common prefix of all reports in the cached counts."""
_FLAGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden")


class NotCountedError(PillionError):
    """This computer or emulator cannot count instructions."""


@dataclass(frozen=True)
class TracedInstruction:
    """An instruction, its execution count, and how often a jump followed it."""

    instruction: str
    times: int
    left: int


@dataclass(frozen=True)
class CountedWindow:
    """The instructions between two marks."""

    lines: tuple[TracedInstruction, ...]
    touched: tuple[tuple[int, int], ...]
    """Bytes and distinct 32-byte lines for each section of TOUCHED."""


def count_by_op(
    firmware: Path,
    board: Board,
    inputs: bytes,
    ops: int,
    *,
    files: Collection[str] | None = None,
    timeout: float = 60.0,
) -> list[CountedWindow]:
    """Returns the instructions of each op on one sample; results are cached by firmware and sample."""
    image = qemu.build_firmware(firmware, board, files)
    plugin = build_plugin()
    key = hash_parts(
        (
            RUNS.encode(),
            image.read_bytes(),
            inputs,
            plugin.read_bytes(),
            compiler_version((QEMU.path(),)).encode(),
        )
    )
    result_file = cached_file(
        key, COUNTS, lambda out: _run_with_plugin(image, board, inputs, plugin, out, timeout)
    )
    text, _, named = result_file.read_text("utf-8").rpartition(RUNS)
    runs = [int(number) for number in named.split()]
    windows = list(counted_windows(text, disassemble(image, board.core)))
    # The last window follows the last op.
    if len(windows) <= len(runs) or set(runs) != set(range(ops)):
        raise _not_counted_error(board, f"{len(windows)} windows for {len(runs)} runs of {ops} ops")
    of_ops: list[list[CountedWindow]] = [[] for _ in range(ops)]
    for op, window in zip(runs, windows[-len(runs) - 1 : -1], strict=True):
        of_ops[op].append(window)
    return [_merge_windows(of_op) for of_op in of_ops]


def _merge_windows(windows: Sequence[CountedWindow]) -> CountedWindow:
    """Returns all runs of an op as one; an op runs several times if it computes a few rows at a time."""
    lines = tuple(line for window in windows for line in window.lines)
    sections = zip(*(window.touched for window in windows), strict=True)
    touched = tuple((sum(b for b, _ in section), sum(n for _, n in section)) for section in sections)
    return CountedWindow(lines, touched)


def build_plugin() -> Path:
    """Returns the plugin, compiled for this computer and the installed emulator."""
    source = (resources.files("pillion.boards") / "plugin" / "blocks.c").read_bytes()
    flags = (*_FLAGS, f"-DPILLION_PLUGIN_VERSION={_plugin_version()}")
    compiler = Compiler(host_compiler(), flags)

    def make(out: Path) -> None:
        (out.parent / "blocks.c").write_bytes(source)
        compiler.run(
            ["-shared", "blocks.c", "-o", str(out)], out.parent, "compiling the plugin of the emulator"
        )

    return cached_file(hash_parts((compiler.key(), source)), PLUGIN, make)


def _plugin_version() -> int:
    """Returns the version of the plugin interface: 2 since QEMU 8.2."""
    match = re.search(r"version (\d+)\.(\d+)", compiler_version((QEMU.path(),)))
    return 2 if match and (int(match[1]), int(match[2])) >= (8, 2) else 1


def _run_with_plugin(
    image: Path, board: Board, inputs: bytes, plugin: Path, out: Path, timeout: float
) -> None:
    with tempfile.TemporaryDirectory(prefix="pillion-") as folder:
        # Names have no comma, which would end an option.
        (Path(folder) / PLUGIN).symlink_to(plugin)
        (Path(folder) / "input.bin").write_bytes(inputs)
        options = ",".join([f"./{PLUGIN}", f"out={COUNTS}", *_plugin_options(read_elf(image))])
        command = [*qemu.command_line(image, board, profile=True), "-plugin", options]
        try:
            status, output = run_to_end(command, Path(folder), timeout)
        except subprocess.TimeoutExpired:
            raise _not_counted_error(board, f"it did not end within {timeout:g} s") from None
        counts = Path(folder) / COUNTS
        if status or not counts.exists():
            raise _not_counted_error(
                board, output.decode("utf-8", "replace").strip()[-400:] or "nothing was printed"
            )
        runs = b" ".join(RUN.findall(output))
        out.write_bytes(counts.read_bytes() + RUNS.encode() + runs + b"\n")


def _plugin_options(elf: ElfSizes) -> Iterator[str]:
    """Yields the plugin's options: the model's code ranges, the mark, and the counted sections."""
    if MARK not in elf.symbols or ".text" not in elf.places:
        return
    yield f"mark={elf.symbols[MARK].address:#x}"
    code = elf.places[".text"]
    library = [elf.symbols[name] for name in LIBRARY if name in elf.symbols]
    yield f"code={code.start:#x}-{code.stop:#x}"
    for function in library:
        yield f"code={function.address:#x}-{function.address + function.bytes:#x}"
    for name in TOUCHED:
        addresses = elf.places.get(name, range(0))
        yield f"range={addresses.start:#x}-{addresses.stop:#x}"


def counted_windows(text: str, code: Mapping[int, DisassembledInstruction]) -> Iterator[CountedWindow]:
    """Yields the windows in the plugin's counts, of a disassembled image."""
    lines: list[TracedInstruction] = []
    touched: list[tuple[int, int]] = []
    for word, *rest in map(str.split, text.splitlines()):
        numbers = [int(number) for number in rest]
        if word == "block":
            lines += _block_instructions(numbers, code)
        elif word == "range":
            touched.append((numbers[0], numbers[1]))
        else:
            yield CountedWindow(tuple(lines), tuple(touched))
            lines, touched = [], []


def _block_instructions(
    block: Sequence[int], code: Mapping[int, DisassembledInstruction]
) -> Iterator[TracedInstruction]:
    """Yields the instructions of a block. Only the last one can jump."""
    at, instructions, runs, left = block
    for number in range(instructions):
        instruction = code.get(
            at, DisassembledInstruction("nop", 2)
        )  # data in code, which the disassembler may skip
        yield TracedInstruction(instruction.text, runs, left if number == instructions - 1 else 0)
        at += instruction.bytes


def _not_counted_error(board: Board, reason: str) -> NotCountedError:
    return NotCountedError(
        f"instructions on {board.name} could not be counted",
        rule="QEMU with plugins (7.2 or later), a C compiler for this computer, and a harness as Pillion writes it",
        here=reason,
        help="sudo apt-get install qemu-system-arm gcc; without a clock none of this is needed",
    )
