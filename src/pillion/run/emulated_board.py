# SPDX-License-Identifier: Apache-2.0
"""Runs the generated C with a core's own kernels on an emulated board."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pillion.boards import qemu
from pillion.boards.board import Board, find_board, wrong_core_error
from pillion.boards.elf import ElfSizes, read_elf
from pillion.boards.qemu import QemuResult
from pillion.boards.toolchain import ARM_COMPILER, QEMU
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.manifest import Manifest, read_manifest
from pillion.emitters.c.project import boards_for
from pillion.ir.verdict import Verdict
from pillion.ops import Segment
from pillion.run.executor import (
    DEFAULTS,
    DifferingRegion,
    Profile,
    Runnable,
    RunOptions,
    RunResult,
    Samples,
    require_open_segments,
    verdict_of_checks,
)
from pillion.run.project_folder import (
    manifest_mismatch_error,
    outputs_from_bytes,
    split_outputs,
    temporary_project,
)
from pillion.targets import find_target


@dataclass(frozen=True)
class EmulatedBoard:
    """A board that QEMU emulates; None if QEMU has no board with the target's core."""

    board: str | None

    @property
    def name(self) -> str:
        """The name for `--on`."""
        return self.board or "board"

    def judge(self, program: Runnable) -> Verdict:
        """Whether cross compiler, emulator and a board with the core exist."""
        if self.board is None:
            return Verdict(
                "board.core",
                False,
                "QEMU emulates the processor",
                f"--target {program.target.name}",
                f"no emulated board has a {program.target.core.name}",
                "a target whose row in `pillion targets` names a board",
            )
        return verdict_of_checks(
            "board.tools", ARM_COMPILER.path, QEMU.path, lambda: require_open_segments(program)
        )

    def run(self, program: Runnable, samples: Samples, options: RunOptions = DEFAULTS) -> list[RunResult]:
        """Runs each sample in a project in a temporary folder."""
        with temporary_project(program.files) as folder:
            return run_on_board(folder, read_manifest(folder), find_board(self.name), samples, options)


def run_on_board(
    folder: Path, manifest: Manifest, board: Board, samples: Samples, options: RunOptions
) -> list[RunResult]:
    """Runs a C project in a folder. Each sample is a run of the emulator with reset states; the steps of a
    stream share one."""
    board = dataclasses.replace(board, optimize=manifest.optimize)
    check_board(manifest, board)
    runs = [samples] if options.stream and manifest.states else [[sample] for sample in samples]
    return [
        result
        for together in runs
        if together
        for result in _run_emulator(folder, manifest, board, together, options)
    ]


def _run_emulator(
    folder: Path, manifest: Manifest, board: Board, samples: Samples, options: RunOptions
) -> Iterator[RunResult]:
    """Yields the results of one run of the emulator; the profile is of the first sample."""
    raw = b"".join(np.ascontiguousarray(x).tobytes() for sample in samples for x in sample)
    timeout = options.timeout * len(samples)
    run = qemu.run_samples(folder, board, raw, profile=options.profile, timeout=timeout, files=manifest.files)
    profile = (
        _execution_profile(manifest, run, firmware_sizes(folder, manifest, board))
        if options.profile
        else None
    )
    per_sample = len(run.outputs) // len(samples)
    for number in range(len(samples)):
        outputs = run.outputs[number * per_sample : (number + 1) * per_sample]
        yield RunResult(
            outputs_from_bytes(manifest, split_outputs(outputs, manifest)), None if number else profile
        )


def firmware_sizes(folder: Path, manifest: Manifest, board: Board, *, must_fit: bool = True) -> ElfSizes:
    """Returns the sizes of a project's firmware, linked for a board."""
    board = dataclasses.replace(board, optimize=manifest.optimize)
    return read_elf(qemu.build_firmware(folder, board, manifest.files, must_fit=must_fit))


def board_of(manifest: Manifest) -> Board:
    """Returns the board of a project's target, or the first one that runs its kernels."""
    target = find_target(manifest.target)
    return find_board(target.board or boards_for(manifest.kernels or target.isa)[0].name)


def check_board(manifest: Manifest, board: Board) -> None:
    """Raises if the board's core cannot run the project's kernels."""
    isa = manifest.isa
    fitting = [candidate.name for candidate in boards_for(isa)]
    if board.name in fitting:
        return
    instructions = {Isa.MVE: "Helium", Isa.DSP: "the DSP extension and no Helium"}.get(isa, isa.value)
    raise wrong_core_error(
        f"`{manifest.model}`",
        manifest.target,
        board,
        rule=f"its kernels are for cores with {instructions}",
        here=f"on {board.name}",
        help=f"run it on {' or '.join(fitting)}, or compile it for {board.core}",
    )


def _execution_profile(manifest: Manifest, result: QemuResult, sizes: ElfSizes) -> Profile:
    memory = manifest.memory
    constants = _linked_constant_bytes(sizes, manifest.model)
    regions = [
        DifferingRegion("arena", memory.arena_bytes, sizes.arena),
        *([DifferingRegion("state", memory.state_bytes, sizes.state)] if manifest.states else []),
        DifferingRegion("constants", memory.constant_bytes, constants.get(False, 0)),
    ]
    if memory.npu_stand_in.constant_bytes:
        regions.append(
            DifferingRegion(
                "NPU stand-in's constants", memory.npu_stand_in.constant_bytes, constants.get(True, 0)
            )
        )
    ops = tuple(result.op_instructions or ())
    if len(ops) != len(manifest.ops):
        raise manifest_mismatch_error(manifest, f"{len(manifest.ops)} ops", f"{len(ops)} measured")
    on_core = sum(count for op, count in zip(manifest.ops, ops, strict=True) if op.kind != Segment.kind)
    return Profile(on_core, ops, result.stack_bytes or 0, sizes, tuple(regions), manifest.ops)


def _linked_constant_bytes(sizes: ElfSizes, model: str) -> dict[bool, int]:
    """Returns the bytes of the model's arrays in the linked file: its own (False), and those of the NPU's stand-in
    (True)."""
    totals: dict[bool, int] = {}
    for symbol in sizes.symbols.values():
        if symbol.name.startswith(f"{model}_") and not symbol.is_function:
            of_npu = symbol.name.startswith(f"{model}_npu_")
            totals[of_npu] = totals.get(of_npu, 0) + symbol.bytes
    return totals
