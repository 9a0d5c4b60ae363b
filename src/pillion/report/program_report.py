# SPDX-License-Identifier: Apache-2.0
"""Shows programs: as a report, as the text of their placement, as the text of their graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pillion.compiled_program import CompiledProgram
from pillion.devices.clock import Clock
from pillion.host_io.progress import Advance, show_progress
from pillion.ir.text import to_text
from pillion.overlap import overlap_of
from pillion.report.collect import collect
from pillion.report.page import require_template_engine, write_page
from pillion.report.report_options import ReportOptions
from pillion.run.arithmetic_change import ArithmeticChange
from pillion.run.arithmetic_change import compare_arithmetics as arithmetic_change
from pillion.run.time_estimate import timing_conditions


def report(
    program: CompiledProgram,
    path: str | Path,
    data: Any = None,
    *,
    samples: int = 16,
    measure: bool = True,
    clock: str | float | Clock | None = None,
    progress: Advance | None = None,
) -> Path:
    """Writes an HTML report: graph, memory, work, placement and, with `data` (samples, or their path),
    quantization quality.

    At most `samples` samples are used. With `measure`, instructions are counted if cross compiler and
    emulator are installed. With `clock` (`"160MHz"`, or hertz), the report estimates the time of a run."""
    require_template_engine()
    conditions = timing_conditions(clock) if clock is not None else None
    facts = collect(program, ReportOptions(data, samples, measure, conditions=conditions, progress=progress))
    write_page(facts, Path(path))
    return Path(path)


def explain(program: CompiledProgram) -> str:
    """Returns the ledger as text: where each op runs, and why; for a stream, also its inputs and the meaning
    of its outputs."""
    over_time = program.streaming.lines if program.streaming else ()
    loops = (f"loop {loop.name}: {loop.because}" for loop in program.ledger.copied)
    ops = (f"{e.op.kind} {e.op.name}: {e.unit.value}, {e.because}" for e in program.ledger)
    found = overlap_of(program)
    at_once = (f"core and NPU at once: {found.summary}",) if found else ()
    return "\n".join(
        (*over_time, *program.precision_texts, f"arithmetic: {program.arithmetic}", *at_once, *loops, *ops)
    )


def text(program: CompiledProgram) -> str:
    """Returns the graph as text, without long constants."""
    return to_text(program.graph, constants=False)


def change_of_arithmetic(
    program: CompiledProgram, inputs: int | None = None, *, seed: int = 0
) -> ArithmeticChange | None:
    """Compares the chosen arithmetic with the model's own on random inputs: how many outputs differ, by how
    much, and from which ops on. Returns None if both are the same."""
    if program.own_arithmetic is None:
        return None
    with show_progress():
        return arithmetic_change(program.graph, program.own_arithmetic, inputs, seed)
