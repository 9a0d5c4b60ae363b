# SPDX-License-Identifier: Apache-2.0
"""The generated C with a core's own kernels, on the emulated board that has the core."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pillion.boards import qemu
from pillion.boards.board import Board, another_core, find_board
from pillion.boards.elf import ElfSizes, read_elf
from pillion.boards.qemu import QemuResult
from pillion.boards.toolchain import ARM_COMPILER, QEMU
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.manifest import Manifest, read_manifest
from pillion.emitters.c.project import boards_for
from pillion.ir.verdict import Verdict
from pillion.run.executor import (
    USUAL,
    Profile,
    Region,
    Runnable,
    RunOptions,
    RunResult,
    Samples,
    judged,
    want_open,
)
from pillion.run.project import not_its_manifest, outputs_of, temporary_project


@dataclass(frozen=True)
class EmulatedBoard:
    """A board that QEMU emulates; there is none where QEMU has none with the core of a target."""

    board: str | None

    @property
    def name(self) -> str:
        """The name that users choose it by."""
        return self.board or "board"

    def judge(self, program: Runnable) -> Verdict:
        """Says whether cross compiler and emulator are there, and a machine with the core."""
        if self.board is None:
            return Verdict(
                "board.core",
                False,
                "QEMU emulates the processor",
                f"--target {program.target.name}",
                f"no emulated board has a {program.target.core.name}",
                "a target whose row in `pillion targets` names a board",
            )
        return judged("board.tools", ARM_COMPILER.path, QEMU.path, lambda: want_open(program))

    def run(self, program: Runnable, samples: Samples, options: RunOptions = USUAL) -> list[RunResult]:
        """Runs each sample, in a project in a folder that goes away again."""
        with temporary_project(program.files) as folder:
            return run_on_board(folder, read_manifest(folder), find_board(self.name), samples, options)


def run_on_board(
    folder: Path, manifest: Manifest, board: Board, samples: Samples, options: RunOptions
) -> list[RunResult]:
    """Runs a C project that lies in a folder. Each sample is a run of the emulator, which begins anew; the steps of a stream are one."""
    board = dataclasses.replace(board, optimize=manifest.optimize)
    check_board(manifest, board)
    runs = [samples] if options.stream and manifest.states else [[sample] for sample in samples]
    return [
        result for together in runs if together for result in _run(folder, manifest, board, together, options)
    ]


def _run(
    folder: Path, manifest: Manifest, board: Board, samples: Samples, options: RunOptions
) -> Iterator[RunResult]:
    """One run of the emulator; what is measured is of the first sample."""
    raw = b"".join(np.ascontiguousarray(x).tobytes() for sample in samples for x in sample)
    timeout = options.timeout * len(samples)
    run = qemu.run(folder, board, raw, profile=options.profile, timeout=timeout, files=manifest.files)
    profile = _profile(manifest, run, _sizes(folder, manifest, board)) if options.profile else None
    found = len(run.outputs) // len(samples)
    for number in range(len(samples)):
        outputs = run.outputs[number * found : (number + 1) * found]
        yield RunResult(outputs_of(manifest, _cut(outputs, manifest)), None if number else profile)


def _cut(outputs: bytes, manifest: Manifest) -> list[bytes]:
    """The bytes of each output."""
    sizes = [o.bytes for o in manifest.outputs]
    if len(outputs) != sum(sizes):
        raise not_its_manifest(manifest, f"{sum(sizes)} bytes of outputs", f"{len(outputs)} on the board")
    ends = np.cumsum(sizes).tolist()
    return [outputs[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def _sizes(folder: Path, manifest: Manifest, board: Board) -> ElfSizes:
    """What the linked firmware has of everything."""
    return read_elf(qemu.build(folder, board, manifest.files))


def check_board(manifest: Manifest, board: Board) -> None:
    """Raises where the board's core cannot run the project's kernels."""
    isa = manifest.isa
    fitting = [one.name for one in boards_for(isa)]
    if board.name in fitting:
        return
    instructions = {Isa.MVE: "Helium", Isa.DSP: "the DSP extension and no Helium"}.get(isa, isa.value)
    raise another_core(
        f"`{manifest.model}`",
        manifest.target,
        board,
        rule=f"its kernels are for cores with {instructions}",
        here=f"on {board.name}",
        help=f"run it on {' or '.join(fitting)}, or compile it for {board.core}",
    )


def _profile(manifest: Manifest, result: QemuResult, sizes: ElfSizes) -> Profile:
    memory = manifest.memory
    constants = _constants(sizes, manifest.model)
    regions = [
        Region("arena", memory.arena_bytes, sizes.arena),
        *([Region("state", memory.state_bytes, sizes.state)] if manifest.states else []),
        Region("constants", memory.constant_bytes, constants.get(False, 0)),
    ]
    if memory.npu_stand_in.constant_bytes:
        regions.append(
            Region("NPU stand-in's constants", memory.npu_stand_in.constant_bytes, constants.get(True, 0))
        )
    ops = tuple(result.op_instructions or ())
    if len(ops) != len(manifest.ops):
        raise not_its_manifest(manifest, f"{len(manifest.ops)} ops", f"{len(ops)} measured")
    return Profile(sum(ops), ops, result.stack_bytes or 0, sizes.code, tuple(regions), manifest.ops)


def _constants(sizes: ElfSizes, model: str) -> dict[bool, int]:
    """Bytes of the model's arrays in the linked file: False → its own, True → those of the NPU's stand-in."""
    found: dict[bool, int] = {}
    for symbol in sizes.symbols.values():
        if symbol.name.startswith(f"{model}_") and not symbol.is_function:
            of_npu = symbol.name.startswith(f"{model}_npu_")
            found[of_npu] = found.get(of_npu, 0) + symbol.bytes
    return found
