# SPDX-License-Identifier: Apache-2.0
"""Instructions counted on the emulated board with the target's core, and the firmware that ran there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pillion.boards.elf import ElfSizes
from pillion.compiled_program import CompiledProgram
from pillion.errors import PillionError
from pillion.ir.types import Array
from pillion.report.report_facts import MeasuredFacts
from pillion.run.emulated_board import EmulatedBoard
from pillion.run.executor import RunOptions

SECONDS = 300.0
"""Time limit of one emulated run."""


@dataclass(frozen=True)
class Measurement:
    """The emulator's result, the instructions of each step, and the linked firmware."""

    facts: MeasuredFacts
    instructions: tuple[int, ...] | None = None
    elf: ElfSizes | None = None


def measure_on_board(subject: CompiledProgram, sample: Sequence[Array]) -> Measurement:
    """Runs a program on one sample in the emulator. Returns the reason if that is impossible."""
    board = EmulatedBoard(subject.target.board)
    verdict = board.judge(subject)
    if not verdict.ok:
        return not_measured("; ".join(filter(None, (verdict.what, verdict.help))))
    try:
        profile = board.run(subject, [sample], RunOptions(SECONDS, profile=True))[0].profile
    except PillionError as error:
        return not_measured(f"{error.what}: {error.here}" if error.here else error.what)
    assert profile is not None
    facts = MeasuredFacts(
        board.name, profile.instructions, profile.stack_bytes, profile.code_bytes, "", profile.elf.flash
    )
    return Measurement(facts, profile.op_instructions, profile.elf)


def not_measured(why: str) -> Measurement:
    """Returns a measurement that only holds the reason why it was not made."""
    return Measurement(unknown_counts(why))


def unknown_counts(why: str) -> MeasuredFacts:
    """Returns counts that only hold the reason why there are none."""
    return MeasuredFacts("", None, None, None, " ".join(why.split()))
