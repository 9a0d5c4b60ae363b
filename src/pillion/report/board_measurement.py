# SPDX-License-Identifier: Apache-2.0
"""Instructions counted on the emulated board with the target's core, and the firmware that ran there."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from pillion.boards import qemu
from pillion.boards.board import find_board
from pillion.boards.elf import ElfSizes, read_elf
from pillion.emitters.c.manifest import read_manifest
from pillion.errors import PillionError
from pillion.ir.types import Array
from pillion.report.report_facts import MeasuredFacts
from pillion.report.subject import ReportSubject
from pillion.run.emulated_board import EmulatedBoard, run_on_board
from pillion.run.executor import RunOptions
from pillion.run.project_folder import temporary_project

SECONDS = 300.0
"""Time limit of one emulated run."""


@dataclass(frozen=True)
class Measurement:
    """The emulator's result, the instructions of each step, and the linked firmware."""

    facts: MeasuredFacts
    instructions: tuple[int, ...] | None = None
    elf: ElfSizes | None = None


def measure(subject: ReportSubject, sample: Sequence[Array]) -> Measurement:
    """Runs a program on one sample in the emulator. Returns the reason if that is impossible."""
    board = EmulatedBoard(subject.target.board)
    verdict = board.judge(subject)
    if not verdict.ok:
        return not_measured("; ".join(filter(None, (verdict.what, verdict.help))))
    try:
        return _measure_in_emulator(subject, board.name, sample)
    except PillionError as error:
        return not_measured(f"{error.what}: {error.here}" if error.here else error.what)


def not_measured(why: str) -> Measurement:
    """Returns a measurement that only holds the reason why it was not made."""
    return Measurement(MeasuredFacts("", None, None, None, " ".join(why.split())))


def _measure_in_emulator(subject: ReportSubject, name: str, sample: Sequence[Array]) -> Measurement:
    with temporary_project(subject.files) as folder:
        manifest = read_manifest(folder)
        board = dataclasses.replace(find_board(name), optimize=manifest.optimize)
        options = RunOptions(SECONDS, profile=True)
        profile = run_on_board(folder, manifest, board, [sample], options)[0].profile
        elf = read_elf(qemu.build(folder, board, manifest.files))
    assert profile is not None
    facts = MeasuredFacts(name, profile.instructions, profile.stack_bytes, profile.code_bytes, "")
    return Measurement(facts, profile.op_instructions, elf)
