# SPDX-License-Identifier: Apache-2.0
"""Costs of a program: RAM from its memory plan, flash from the linked firmware, instructions from the emulated
core."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from pillion.emitters.c.manifest import Manifest, read_manifest
from pillion.errors import PillionError
from pillion.program import Program
from pillion.run.emulated_board import board_of, firmware_sizes, run_on_board
from pillion.run.executor import RunOptions
from pillion.run.project_folder import temporary_project
from pillion.run.random_inputs import samples_of_manifest

TIMEOUT_SECONDS = 600.0


@dataclass(frozen=True)
class ProgramCosts:
    """Bytes and instructions of a program; None if not measured."""

    ram_bytes: int
    """Arena, states, and NPU weights and scratch memory in RAM, without the stack."""
    constant_bytes: int
    """Constants in flash: weights, model description, and NPU code."""
    flash_bytes: int | None = None
    """Code and constants of the linked firmware, without start-up code."""
    instructions: int | None = None
    """Instructions of one run."""
    stack_bytes: int | None = None
    board: str | None = None
    """The emulated board of the measurement."""


def costs_of(
    program: Program | str | Path, *, flash: bool = False, instructions: bool = False
) -> ProgramCosts:
    """Returns the costs of a program, or of the C project in a folder. Flash needs the cross compiler,
    instructions the emulator too."""
    with ExitStack() as stack:
        if isinstance(program, Program):
            known = ProgramCosts(program.sram_bytes, program.constant_bytes)
            if not (flash or instructions):
                return known
            folder = stack.enter_context(temporary_project(program.files))
            manifest = read_manifest(folder)
        else:
            folder = Path(program)
            manifest = read_manifest(folder)
            known = ProgramCosts(manifest.memory.ram_bytes, manifest.memory.flash_constant_bytes)
        if (flash or instructions) and manifest.memory.npu_stand_in.constant_bytes:
            raise PillionError(
                f"flash and instructions of `{manifest.model}` cannot be measured",
                rule="they are measured on an emulated core, and no emulator has an NPU: a stand-in computes in its place",
                here=f"--target {manifest.target}",
                help="--max-ram, which is known; or --keep-on-cpu '*' for what the core would need alone",
            )
        return _measure_costs(known, folder, manifest, flash, instructions)


def can_be_measured(program: Program | str | Path) -> bool:
    """Whether the program runs on the core alone: then flash and instructions are complete."""
    if isinstance(program, Program):
        return not program.payloads.segments
    return not read_manifest(Path(program)).memory.npu_stand_in.constant_bytes


def _measure_costs(
    known: ProgramCosts, folder: Path, manifest: Manifest, flash: bool, instructions: bool
) -> ProgramCosts:
    board = board_of(manifest)
    if flash:
        sizes = firmware_sizes(folder, manifest, board, must_fit=False)
        known = replace(known, flash_bytes=sizes.flash, board=board.name)
    if instructions:
        sample = samples_of_manifest(manifest.inputs, 1, seed=0)
        options = RunOptions(TIMEOUT_SECONDS, profile=True)
        profile = run_on_board(folder, manifest, board, sample, options)[0].profile
        assert profile is not None
        known = replace(
            known, instructions=profile.instructions, stack_bytes=profile.stack_bytes, board=board.name
        )
    return known
