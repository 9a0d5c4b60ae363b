# SPDX-License-Identifier: Apache-2.0
"""Estimates a program's time on its chip, with an error range, from counted instructions if possible."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from pillion.boards import instruction_trace
from pillion.boards.board import BOARDS, Board
from pillion.boards.toolchain import ARM_COMPILER, DISASSEMBLER, QEMU, host_compiler
from pillion.devices.clock import Clock, parse_clock
from pillion.devices.cortex_m import CORES, Core
from pillion.devices.cortex_m.classes import (
    ExecutedLine,
    InstructionClass,
    InstructionCounts,
    MemoryAccesses,
    executed,
)
from pillion.devices.cortex_m.memories import (
    MemoryAssumption,
    default_memories,
    find_memories,
    placed_memories,
)
from pillion.devices.cortex_m.op_cycles import counted_cycles
from pillion.devices.cycle_range import CycleRange, sum_of_ranges
from pillion.devices.device import Device
from pillion.emitters.c.kernel_costs import estimated_cycles
from pillion.emitters.c.lower import CProgram
from pillion.emitters.c.manifest import Manifest, ManifestOp, read_manifest
from pillion.errors import PillionError
from pillion.ir.op import Op
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict
from pillion.memory.timeline import Timeline, timeline
from pillion.ops import Region, Segment, flatten_ops, op_run_counts
from pillion.run.emulated_board import check_board
from pillion.run.executor import TIMEOUT_SECONDS, Runnable, verdict_of_checks
from pillion.run.measurements import Measurement, calibration_of, read_measurements
from pillion.run.project_folder import temporary_project
from pillion.run.random_inputs import random_samples
from pillion.targets import Target, find_target

STAND_IN_BOARDS: Mapping[str, str] = {
    "cortex-m0plus": "microbit",
    "cortex-m1": "microbit",
    "cortex-m23": "microbit",
    "cortex-m33+nodsp": "mps2-an385",
    "cortex-m35p+nodsp": "mps2-an385",
    "cortex-m35p": "mps2-an505",
    "cortex-m52": "mps3-an547",
    "cortex-m52+nomve": "mps2-an505",
    "cortex-m55+nomve": "mps2-an505",
    "cortex-m85+nomve": "mps2-an505",
    "cortex-m85": "mps3-an547",
}
"""Boards with the same kernels, for cores that QEMU does not emulate."""
ESTIMATED = "estimated instructions"
"""The basis of an estimate without a run."""


@dataclass(frozen=True)
class TimingConditions:
    """The user's facts: clocks, and the memories of constants and arena."""

    clock: Clock
    memories: MemoryAssumption | None = None
    npu_clock: Clock | None = None
    """The NPU's clock; by default the core's."""
    measured: tuple[Measurement, ...] = ()
    """Measurements of boards that correct the estimate."""


def timing_conditions(
    clock: str | float | Clock,
    npu_clock: str | float | Clock | None = None,
    memories: str | None = None,
    *names: str,
    measured: Path | None = None,
) -> TimingConditions:
    """Returns the conditions that a user gave; errors call the clocks by `names`."""
    name, npu_name = names or ("clock", "npu_clock")
    return TimingConditions(
        parse_clock(clock, name),
        find_memories(memories) if memories is not None else None,
        parse_clock(npu_clock, npu_name) if npu_clock is not None else None,
        read_measurements(measured) if measured is not None else (),
    )


@dataclass(frozen=True)
class OpTime:
    """The time of one op, in cycles of its unit."""

    name: str
    kind: str
    unit: str
    cycles: CycleRange
    milliseconds: CycleRange
    executed: InstructionCounts | None = None
    """The counted instructions."""


@dataclass(frozen=True)
class TimeEstimate:
    """A program's time, from `milliseconds.low` to `milliseconds.high`, and its basis."""

    core: str
    clock: Clock
    memories: MemoryAssumption
    basis: str
    """The board on which instructions were counted, or the reason why none were."""
    ops: tuple[OpTime, ...]
    left_out: str = ""
    """The parts that the estimate omits."""
    npu_clock: Clock | None = None
    """The NPU's clock; None: the core's."""
    timelines: tuple[Timeline, ...] = ()
    """The time lines of core and NPU in milliseconds, for the lowest and the highest estimates, if both work at once."""

    @property
    def milliseconds(self) -> CycleRange:
        """The total time of all ops, which run in sequence unless core and NPU work at once."""
        if self.timelines:
            return CycleRange(*(line.total for line in self.timelines))
        return sum_of_ranges(op.milliseconds for op in self.ops)

    @property
    def cycles(self) -> CycleRange:
        """The cycles of the core's ops."""
        return sum_of_ranges(op.cycles for op in self.ops if op.unit == "cpu")

    @property
    def classes(self) -> dict[InstructionClass, int]:
        """The counted instructions of each class."""
        counts = dict.fromkeys(InstructionClass, 0)
        for op in self.ops:
            for name, count in (op.executed.counts if op.executed else {}).items():
                counts[name] += count
        return {name: count for name, count in counts.items() if count}

    def __str__(self) -> str:
        return f"estimated {format_milliseconds(self.milliseconds)} at {self.clock}"


def format_milliseconds(milliseconds: CycleRange) -> str:
    """Returns a range of milliseconds with three significant digits: `1.23-2.5 ms`."""
    return f"{_format_rounded(milliseconds.low)}-{_format_rounded(milliseconds.high)} ms"


def _format_rounded(number: float) -> str:
    """Returns three significant digits, at most down to ten nanoseconds."""
    if number >= 100:
        return f"{number:.0f}"
    return f"{float(f'{number:.3g}'):.5f}".rstrip("0").rstrip(".")


def estimate_program(
    program: Runnable,
    conditions: TimingConditions,
    on: str | None = None,
    sample: Sequence[Array] | None = None,
    timeout: float = TIMEOUT_SECONDS,
) -> TimeEstimate:
    """Returns the estimated time of a compiled program: from instructions counted on one sample (by default a
    random one) if that is possible, otherwise from estimated instructions."""
    core = counted_core(program.target.core, on)
    counter = can_count_instructions(core, on)
    if not counter.ok:
        return _estimate_without_counts(program, conditions, core, counter.what or counter.got)
    sample = sample or random_samples(program.graph, 1, seed=0)[0]
    try:
        with temporary_project(program.files) as folder:
            estimate = estimate_folder(folder, conditions, sample, on, timeout)
    except instruction_trace.NotCountedError as error:
        return _estimate_without_counts(program, conditions, core, f"{error.what} ({error.here})")
    return _add_npu_times(estimate, program, conditions)


def can_count_instructions(core: Core, on: str | None = None) -> Verdict:
    """Returns whether the instructions of a core can be counted here, and on which board."""
    board = on or core.board or STAND_IN_BOARDS[core.name]
    verdict = verdict_of_checks("time.tools", ARM_COMPILER.path, DISASSEMBLER.path, QEMU.path, host_compiler)
    return dataclasses.replace(verdict, got=board) if verdict.ok else verdict


def estimate_folder(
    folder: Path,
    conditions: TimingConditions,
    sample: Sequence[Array],
    on: str | None = None,
    timeout: float = TIMEOUT_SECONDS,
) -> TimeEstimate:
    """Returns the estimated time of a C project on one sample, counted on a board."""
    manifest = read_manifest(folder)
    named = counted_core(find_target(manifest.target).core, on)
    counter = can_count_instructions(named, on)
    if not counter.ok:
        raise PillionError(
            f"the instructions of `{manifest.model}` cannot be counted",
            rule=counter.wanted,
            here=counter.got,
            help=counter.help or "`pillion compile --clock` estimates instructions then",
        )
    board = dataclasses.replace(BOARDS[counter.got], optimize=manifest.optimize)
    check_board(manifest, board)
    windows = _count_executed(folder, manifest, board, sample, timeout)
    return _estimate_from_counts(manifest, windows, named, board, conditions)


def counted_core(core: Core, on: str | None) -> Core:
    """Returns the core whose cycles count: the board's, or the program's own if the board is its stand-in."""
    stands_in = on is None or STAND_IN_BOARDS.get(core.name) == on
    return core if stands_in or on is None else CORES[BOARDS[on].core]


def _count_executed(
    folder: Path, manifest: Manifest, board: Board, sample: Sequence[Array], timeout: float
) -> list[InstructionCounts]:
    raw = b"".join(np.ascontiguousarray(x).tobytes() for x in sample)
    counted = instruction_trace.count_by_op(
        folder, board, raw, len(manifest.ops), files=manifest.files, timeout=timeout
    )
    return [
        executed(
            (ExecutedLine(line.instruction, line.times, line.left) for line in window.lines),
            *(MemoryAccesses(*touched) for touched in window.touched),
        )
        for window in counted
    ]


def _estimate_from_counts(
    manifest: Manifest,
    ran: Sequence[InstructionCounts],
    core: Core,
    board: Board,
    conditions: TimingConditions,
) -> TimeEstimate:
    memories = (
        conditions.memories or manifest.memory.placed or _default_memories(find_target(manifest.target), core)
    )
    pairs = [
        (op, op_counts) for op, op_counts in zip(manifest.ops, ran, strict=True) if op.kind != Segment.kind
    ]
    clock = conditions.clock
    measured = conditions.measured
    calibration = calibration_of(measured, core.name, memories.name) if measured else None

    def cycles(counts: InstructionCounts) -> CycleRange:
        estimate = counted_cycles(core, counts, memories, clock.hertz)
        return calibration.corrected(estimate) if calibration else estimate

    ops = tuple(_op_time(op, "cpu", cycles(counts), clock, counts) for op, counts in pairs)
    segments = len(manifest.ops) - len(pairs)
    basis = f"instructions by class, counted on {board.name}"
    if board.core != core.name:
        basis += f", whose {board.core} runs the same kernels"
    if calibration:
        basis += f"; {calibration}"
    left_out = (
        f"{segments} segments of the NPU (`pillion explain --clock` estimates them)" if segments else ""
    )
    return TimeEstimate(core.name, conditions.clock, memories, basis, ops, left_out)


def _default_memories(target: Target, core: Core) -> MemoryAssumption:
    """Returns the chip's memories if they are known and the core is its own, otherwise the core's
    defaults."""
    is_its_own = target.memories and target.core == core
    return find_memories(target.memories) if is_its_own else default_memories(core.name)


def _memories_of(program: Runnable, core: Core) -> MemoryAssumption:
    """Returns the memories that the user named for a program, otherwise the chip's or the core's."""
    several = program.lowered.memory.several
    if several is None:
        return _default_memories(program.target, core)
    return placed_memories(tuple(one.memory for one in several.used), several.flash)


def _op_time(
    op: ManifestOp | Op, unit: str, cycles: CycleRange, clock: Clock, ran: InstructionCounts | None = None
) -> OpTime:
    return OpTime(op.name, op.kind, unit, cycles, cycles * (1e3 / clock.hertz), ran)


def _add_npu_times(estimate: TimeEstimate, program: Runnable, conditions: TimingConditions) -> TimeEstimate:
    """Returns the estimate with the NPU's segments in their places."""
    cpu = iter(estimate.ops)
    ops = tuple(
        _segment_time(op, program.target.npu, conditions) if isinstance(op, Segment) else next(cpu)
        for op in flatten_ops(program.graph.ops)
    )
    lines = _timelines(program.lowered, ops) if program.lowered.in_steps else ()
    return dataclasses.replace(
        estimate, ops=ops, left_out="", npu_clock=conditions.npu_clock, timelines=lines
    )


def _timelines(lowered: CProgram, ops: Sequence[OpTime]) -> tuple[Timeline, ...]:
    """Returns the time lines for the lowest and the highest times of ops. Copies of states, which `ops` lack, are last."""
    graph, times = lowered.graph, iter(ops)
    parts = {op: op.body.ops if isinstance(op, Region) else flatten_ops([op]) for op in graph.ops}
    found = {op: sum_of_ranges(one.milliseconds for one in islice(times, len(parts[op]))) for op in graph.ops}
    bounds = ({op: one.low for op, one in found.items()}, {op: one.high for op, one in found.items()})
    return tuple(timeline(graph, durations, lowered.npu_calls) for durations in bounds)


def _segment_time(op: Segment, npu: Device | None, conditions: TimingConditions) -> OpTime:
    assert npu is not None
    cycles = npu.uncertainty * npu.dispatch_cycles + npu.cycle_range([*map(npu.estimate, op.body.ops)])
    return _op_time(op, "npu", cycles, conditions.npu_clock or conditions.clock)


def _estimate_without_counts(
    program: Runnable, conditions: TimingConditions, core: Core, why: str
) -> TimeEstimate:
    """Returns an estimate from the instructions of each kernel, with a wider range."""
    cpu = [run for run in op_run_counts(program.graph.ops) if not isinstance(run.op, Segment)]
    memories, clock = conditions.memories or _memories_of(program, core), conditions.clock
    own = (core, program.graph.arithmetic, memories, clock.hertz)
    ops = tuple(_op_time(run.op, "cpu", estimated_cycles(run.op, *own) * run.times, clock) for run in cpu)
    basis = f"{ESTIMATED} of each kernel, nothing was run: {why}"
    if conditions.measured:
        basis += "; measurements correct counted instructions alone"
    estimate = TimeEstimate(core.name, conditions.clock, memories, basis, ops)
    return _add_npu_times(estimate, program, conditions)
