# SPDX-License-Identifier: Apache-2.0
"""Builds a firmware for an emulated board, runs it on samples, and counts instructions.

The emulator lets an instruction last INSTRUCTION_NS of virtual time (`-icount shift=7`). That is at least two ticks of SysTick on
every board, so the difference of two clock reads is the exact number of instructions between them, on every computer and in every run."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pillion.boards.board import OPTIMIZE_FLAGS, Board
from pillion.boards.build import Compiler, Sources, compile_objects, is_overflow, link_objects
from pillion.boards.faults import fault_error
from pillion.boards.firmware import C_FLAGS, Firmware, read_firmware
from pillion.boards.toolchain import QEMU, arm_compiler
from pillion.errors import PillionError
from pillion.host_io.atomic_files import read_whole
from pillion.host_io.process_guard import run_to_end

_SHIFT = 7
INSTRUCTION_NS = 1 << _SHIFT

# The most lines of a failed run's output in an error.
_MOST_LINES = 8


@dataclass(frozen=True)
class QemuResult:
    """The result of a run. The counts are of the first sample, and None without `profile`."""

    outputs: bytes
    instructions: int | None
    op_instructions: list[int] | None
    stack_bytes: int | None
    console: str


def build_firmware(
    firmware: Path, board: Board, files: Collection[str] | None = None, *, must_fit: bool = True
) -> Path:
    """Returns the linked firmware, an ELF file, built or cached. If its `files` are given, others in the
    folder are ignored. One that need not fit the board's memories has sizes, but may not run."""
    parts = read_firmware(firmware, files)
    try:
        return link_firmware(parts, board)
    except PillionError as error:
        if must_fit or not is_overflow(error.here):
            raise
    return link_firmware(parts, board, further_flags=("-Wl,--noinhibit-exec,--no-check-sections",))


def link_firmware(
    parts: Firmware, board: Board, instead: Sources | None = None, further_flags: Sequence[str] = ()
) -> Path:
    """Returns the linked parts of a firmware; `instead` replaces the harness's main program."""
    speed = OPTIMIZE_FLAGS[board.optimize]
    compiler = Compiler(arm_compiler(), (*board.cflags, *speed, *C_FLAGS))
    # Only the harness knows the tick, so that other objects serve every board with the same core.
    harness = Compiler(compiler.command, (*compiler.flags, f"-DPILLION_TICK_NS={board.tick_ns:g}"))
    around = parts.harness
    if instead is not None:
        around = replace(around, files=tuple(name for name in around.files if name != "main.c"))
    objects = [
        *compile_objects(harness, around),
        *(compile_objects(compiler, instead) if instead is not None else ()),
        *(object_file for sources in parts.inference for object_file in compile_objects(compiler, sources)),
    ]
    flags = (*board.cflags, "-nostdlib", "-Wl,--gc-sections", "-T", board.linker_script, "-L.", "-lgcc")
    linker = Compiler(compiler.command, (*flags, *further_flags))
    return link_objects(
        linker, objects, parts.harness.folder, (board.linker_script, "sections.ld"), f"{board.name}.elf"
    )


def run_samples(
    firmware: Path,
    board: Board,
    inputs: bytes,
    *,
    profile: bool = False,
    timeout: float = 60.0,
    files: Collection[str] | None = None,
) -> QemuResult:
    """Runs the samples in `inputs`, consecutively; each sample is the concatenated inputs of the model."""
    return run_built(build_firmware(firmware, board, files), board, {"input.bin": inputs}, profile, timeout)


def run_built(
    image: Path, board: Board, files: Mapping[str, bytes], profile: bool, timeout: float
) -> QemuResult:
    """Runs a linked firmware, which reads `files` from its folder."""
    with tempfile.TemporaryDirectory(prefix="pillion-") as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        status, console = _run_emulator(image, board, Path(folder), profile, timeout)
        try:
            return _parse_run_result(status, console, image, board, Path(folder), profile)
        except (ValueError, KeyError, OverflowError, ZeroDivisionError) as error:
            raise _malformed_output_error(board, console, f"{type(error).__name__}: {error}") from None


def _parse_run_result(
    status: int, console: str, image: Path, board: Board, folder: Path, profile: bool
) -> QemuResult:
    """Returns the printed and written results of a run, which are untrusted because a firmware may be
    changed."""
    facts = _console_json_lines(console)
    _raise_run_errors(status, console, facts, image, board)
    outputs = read_whole(folder / "output.bin", "output of the firmware")
    op_instructions = _op_instructions(facts) if profile else None
    stack_bytes = next((int(str(fact["stack_bytes"])) for fact in facts if "stack_bytes" in fact), None)
    total = None if op_instructions is None else sum(op_instructions)
    return QemuResult(outputs, total, op_instructions, stack_bytes, console)


def _malformed_output_error(board: Board, console: str, reason: str) -> PillionError:
    return PillionError(
        f"the answer of the firmware on {board.name} makes no sense",
        rule="main.c prints facts in JSON, one a line",
        here=f"{reason}\n{_console_tail(console)}",
        help="was main.c changed? compile the model again",
    )


def command_line(image: Path, board: Board, profile: bool) -> list[str]:
    """Returns the emulator's command; the files of the run are in its working directory."""
    arguments = "arg=main,arg=profile" if profile else "arg=main"
    return [
        *(QEMU.path(), *board.emulator_arguments, "-nographic", "-monitor", "none", "-serial", "none"),
        *("-semihosting-config", f"enable=on,target=native,{arguments}"),
        *("-icount", f"shift={_SHIFT}", "-kernel", str(image)),
    ]


def _run_emulator(image: Path, board: Board, folder: Path, profile: bool, timeout: float) -> tuple[int, str]:
    try:
        status, printed = run_to_end(command_line(image, board, profile), folder, timeout)
    except subprocess.TimeoutExpired as expired:
        raise PillionError(
            f"the model did not finish on {board.name}",
            rule=f"a run ends within {timeout:g} s",
            here=_console_tail((expired.stdout or b"").decode("utf-8", "replace")) or "nothing was printed",
            help="give more time, or fewer samples; a small model that takes this long does not end at all",
        ) from None
    return status, printed.decode("utf-8", "replace")


def _console_json_lines(console: str) -> list[Mapping[str, object]]:
    """Returns the JSON lines of main.c; the emulator may print others."""
    facts: list[Mapping[str, object]] = []
    for line in console.splitlines():
        try:
            fact = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(fact, dict):
            facts.append(fact)
    return facts


def _raise_run_errors(
    status: int, console: str, facts: list[Mapping[str, object]], image: Path, board: Board
) -> None:
    for fact in facts:
        if "fault" in fact:
            raise fault_error(fact, image, board.name)
        if "error" in fact:
            here = ", ".join(f"{name} = {value}" for name, value in fact.items() if name != "error")
            raise PillionError(
                str(fact["error"]),
                rule="reported by main.c of the firmware",
                here=here or str(image),
                help="compile the model again: the files of this project may not belong together",
            )
    if status:
        raise PillionError(
            f"the emulation of {board.name} broke off",
            rule="QEMU ends with status 0",
            here=f"status {status}\n{_console_tail(console)}",
            help="a processor locks up at a fault within a fault; or this QEMU lacks the machine",
        )


def _op_instructions(facts: list[Mapping[str, object]]) -> list[int]:
    """Returns the instructions of each op: ticks minus the overhead of measuring (a clock read per op, an
    interrupt per wrap)."""
    clock = next((fact for fact in facts if "tick_ns" in fact), {})
    tick_ns = float(str(clock["tick_ns"]))

    def instructions(ticks: object) -> int:
        return round(int(str(ticks)) * tick_ns / INSTRUCTION_NS)

    per_look, per_wrap = instructions(clock["overhead_ticks"]), instructions(clock["wrap_ticks"])
    totals: Counter[int] = Counter()
    for fact in facts:
        if "op" in fact:  # one per run of the op: several inside a region
            spent = instructions(fact["ticks"]) - per_look - per_wrap * int(str(fact["wraps"]))
            totals[int(str(fact["op"]))] += max(0, spent)
    return [totals[op] for op in sorted(totals)]


def _console_tail(console: str) -> str:
    return "\n".join(console.strip().splitlines()[-_MOST_LINES:])
