# SPDX-License-Identifier: Apache-2.0
"""Time estimates on the command line: a range and its basis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pillion.cli import console
from pillion.cli.console import Facts, known
from pillion.devices.cycle_range import CycleRange
from pillion.emitters.c.manifest import read_manifest
from pillion.errors import PillionError
from pillion.host_io.atomic_files import output_suffix
from pillion.ir.types import Array
from pillion.partition import ProcessingUnit
from pillion.program import Program
from pillion.run.executor import BoardProfile, RunOptions, RunResult
from pillion.run.measurements import measurement_of, write_measurement
from pillion.run.time_estimate import (
    TimeEstimate,
    TimingConditions,
    can_count_instructions,
    estimate_folder,
    estimate_program,
    format_milliseconds,
    timing_conditions,
)
from pillion.targets import find_target

COLUMN = "time_ms"


def require_c_output(asked: TimingConditions | None, output: Path) -> None:
    """Raises if time is requested for a file that runs with other kernels than Pillion's."""
    form = output_suffix(output)
    if asked is not None and form:
        raise PillionError(
            f"the time of {output.name} is that of its runtime's kernels, which Pillion does not estimate",
            rule="--clock goes with C projects",
            here=f"-o {output}",
            help=f"-o {output.stem}/, or leave --clock out",
        )


def estimate_program_time(
    program: Program,
    asked: TimingConditions | None,
    *,
    quiet: bool,
    on: str | None = None,
    sample: Sequence[Array] | None = None,
    timeout: float = 60.0,
) -> TimeEstimate | None:
    """Estimates the time of a program, if requested."""
    if asked is None:
        return None
    with console.progress_bar(quiet, "counting instructions in the emulator"):
        return estimate_program(program, asked, on, sample, timeout)


def estimate_project_time(
    folder: Path, asked: TimingConditions | None, sample: Sequence[Array], on: str, options: RunOptions
) -> TimeEstimate | None:
    """Estimates the time of a C project, if requested."""
    return estimate_folder(folder, asked, sample, on, options.timeout) if asked else None


def estimate_measured_time(
    folder: Path,
    asked: TimingConditions | None,
    sample: Sequence[Array],
    measured: BoardProfile,
    options: RunOptions,
) -> TimeEstimate | None:
    """Estimates the time that a board has measured, at its own clock unless another is requested; None if instructions
    cannot be counted here."""
    core = find_target(read_manifest(folder).target).core
    if not can_count_instructions(core).ok:
        return None
    conditions = asked or timing_conditions(measured.clock_hz)
    return estimate_folder(folder, conditions, sample, None, options.timeout)


def kept_measurement_facts(
    folder: Path | None, project: Path, result: RunResult, time: TimeEstimate | None
) -> Facts:
    """Writes the measurement of a project to a folder, if one is named, and returns its path."""
    if folder is None:
        return {}
    if result.measured is None:
        raise PillionError(
            f"{project} was not measured op by op",
            rule="--measurements goes with the folder of a C project",
            here=str(project),
            help="compile the model to a folder: -o FOLDER/",
        )
    manifest = read_manifest(project)
    estimates = {op.name: op.cycles for op in time.ops} if time else {}
    measurement = measurement_of(
        manifest,
        find_target(manifest.target).core.name,
        result.measured,
        [estimates.get(op.name) for op in manifest.ops],
        time.memories.name if time else None,
    )
    return {"measurement": str(write_measurement(folder, measurement))}


def time_facts(time: TimeEstimate | None, as_json: bool, *, in_short: bool = False) -> Facts:
    """Returns the time of a whole run; `in_short` omits the table of its parts."""
    if time is None:
        return {}
    numbers = {
        "time_ms": _low_and_high(time.milliseconds),
        "core": time.core,
        "clock_hz": round(time.clock.hertz),
    }
    cycles = [round(time.cycles.low), round(time.cycles.high)]
    classes = (
        {"instruction_classes": _instruction_class_rows(time)}
        if time.classes and (as_json or not in_short)
        else {}
    )
    if time.timelines:
        path = [entry.op.name for entry in time.timelines[-1].critical_path]
        numbers |= {"time_critical_path": path}
    return {
        "time": str(time),
        **(numbers if as_json else {}),
        "cpu_cycles": cycles if as_json else "{:,}-{:,}".format(*cycles),
        "time_memories": f"{time.memories.name}: {time.memories.summary}",
        "time_basis": time.basis,
        **known(time_left_out=time.left_out),
        **classes,
    }


def _instruction_class_rows(time: TimeEstimate) -> list[Facts]:
    total = sum(time.classes.values())
    return [
        {"class": name.value, "instructions": count, "share": f"{100 * count / total:.1f} %"}
        for name, count in sorted(time.classes.items(), key=lambda pair: -pair[1])
    ]


def _low_and_high(milliseconds: CycleRange) -> list[float]:
    return [float(f"{milliseconds.low:.4g}"), float(f"{milliseconds.high:.4g}")]


def explanation_with_times(told: Facts, program: Program, time: TimeEstimate | None, as_json: bool) -> Facts:
    """Adds the time of each op to its explanation; NPU ops share their segment's time."""
    if time is None:
        return told
    on_core = {op.name: op.milliseconds for op in time.ops if op.unit == "cpu"}
    rows = []
    for row, entry in zip(told["ops"], program.ledger, strict=True):
        is_npu = entry.unit is ProcessingUnit.NPU and program.target.npu is not None
        milliseconds = (
            _npu_segment_time(program, entry.npu_cycles, time) if is_npu else on_core[entry.op.name]
        )
        rows.append(
            {
                **row,
                COLUMN: format_milliseconds(milliseconds).removesuffix(" ms"),
                "time_ms_band": _low_and_high(milliseconds),
            }
        )
    segments = [
        {**row, "time": format_milliseconds(op.milliseconds)}
        for row, op in zip(told["segments"], [op for op in time.ops if op.unit == "npu"], strict=True)
    ]
    return {**told, "segments": segments, "ops": rows, **time_facts(time, as_json)}


def _npu_segment_time(program: Program, cycles: int, time: TimeEstimate) -> CycleRange:
    assert program.target.npu is not None
    return program.target.npu.cycle_range([cycles]) * (1e3 / (time.npu_clock or time.clock).hertz)


def profile_with_times(told: Facts, time: TimeEstimate | None) -> Facts:
    """Adds the time of each op to its profile; NPU ops have none."""
    if time is None or "ops" not in told:
        return told
    if "chip" in told:
        cycles = {op.name: f"{op.cycles.low:.0f}-{op.cycles.high:.0f}" for op in time.ops}
        return {**told, "ops": [{**row, "estimated_cycles": cycles.get(row["name"])} for row in told["ops"]]}
    times = {op.name: format_milliseconds(op.milliseconds).removesuffix(" ms") for op in time.ops}
    rows = [
        {**{key: row[key] for key in row if key != "why"}, COLUMN: times.get(row["name"]), "why": row["why"]}
        for row in told["ops"]
    ]
    return {**told, "ops": rows}


def time_columns(chosen: Mapping[str, Sequence[str]], time: TimeEstimate | None) -> dict[str, Sequence[str]]:
    """Returns the columns of a table, with time if it is estimated."""
    if time is None:
        return dict(chosen)
    return {name: (*some[:3], COLUMN, *some[3:]) if name == "ops" else some for name, some in chosen.items()}
