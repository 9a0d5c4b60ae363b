# SPDX-License-Identifier: Apache-2.0
"""How long a program takes on its chip: an estimate with its error, from counted instructions where these can be counted."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pillion.boards import counting
from pillion.boards.board import BOARDS, Board
from pillion.boards.toolchain import ARM_COMPILER, DISASSEMBLER, QEMU, host_compiler
from pillion.devices.band import Band, total
from pillion.devices.clock import Clock
from pillion.devices.cortex_m import CORES, Core
from pillion.devices.cortex_m.classes import Class, Executed, Ran, Touched, executed
from pillion.devices.cortex_m.memories import Memories, find_memories, usual_memories
from pillion.devices.cortex_m.time import counted_cycles, uncounted_cycles
from pillion.devices.device import Device
from pillion.emitters.c.manifest import Manifest, OpFacts, read_manifest
from pillion.errors import PillionError
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict
from pillion.ops import Segment, leaves, runs
from pillion.ops.repeat import Runs
from pillion.run.board import check_board
from pillion.run.executor import TIMEOUT_SECONDS, Runnable, judged
from pillion.run.project import temporary_project
from pillion.run.samples import random_samples
from pillion.targets import Target, find_target

STAND_INS: Mapping[str, str] = {
    "cortex-m0plus": "microbit",
    "cortex-m33+nodsp": "mps2-an385",
    "cortex-m35p+nodsp": "mps2-an385",
    "cortex-m35p": "mps2-an505",
    "cortex-m55+nomve": "mps2-an505",
    "cortex-m85+nomve": "mps2-an505",
    "cortex-m85": "mps3-an547",
}
"""For cores that QEMU does not emulate, the boards whose cores run the very same kernels."""
MULTIPLICATIONS = "multiplications"
"""The basis of an estimate of which nothing was run."""


@dataclass(frozen=True)
class Conditions:
    """What only the user knows: the clocks, and where constants and arena lie."""

    clock: Clock
    memories: Memories | None = None
    npu_clock: Clock | None = None
    """That of the core, where nothing else is said."""


@dataclass(frozen=True)
class OpTime:
    """What one op takes: cycles of the unit that runs it."""

    name: str
    kind: str
    unit: str
    cycles: Band
    milliseconds: Band
    executed: Executed | None = None
    """The instructions that were counted."""


@dataclass(frozen=True)
class TimeEstimate:
    """How long a program takes, from `milliseconds.low` to `milliseconds.high`, and what that rests on."""

    core: str
    clock: Clock
    memories: Memories
    basis: str
    """What was counted, and where; or that nothing was."""
    ops: tuple[OpTime, ...]
    left_out: str = ""
    """What the estimate does not hold."""
    npu_clock: Clock | None = None
    """That of the core, if it is None."""

    @property
    def milliseconds(self) -> Band:
        """The time of all ops, one after another."""
        return total(op.milliseconds for op in self.ops)

    @property
    def cycles(self) -> Band:
        """The cycles of the ops that the core runs."""
        return total(op.cycles for op in self.ops if op.unit == "cpu")

    @property
    def classes(self) -> dict[Class, int]:
        """The instructions of each class that were counted."""
        counts = dict.fromkeys(Class, 0)
        for op in self.ops:
            for name, count in (op.executed.counts if op.executed else {}).items():
                counts[name] += count
        return {name: count for name, count in counts.items() if count}

    def __str__(self) -> str:
        return f"estimated {in_words(self.milliseconds)} at {self.clock}"


def in_words(milliseconds: Band) -> str:
    """Gives a band of milliseconds in three digits: `1.23-2.5 ms`."""
    return f"{_rounded(milliseconds.low)}-{_rounded(milliseconds.high)} ms"


def _rounded(number: float) -> str:
    """Three digits that count, and no more than ten nanoseconds."""
    if number >= 100:
        return f"{number:.0f}"
    return f"{float(f'{number:.3g}'):.5f}".rstrip("0").rstrip(".")


def estimate_program(
    program: Runnable,
    conditions: Conditions,
    on: str | None = None,
    sample: Sequence[Array] | None = None,
    timeout: float = TIMEOUT_SECONDS,
) -> TimeEstimate:
    """Estimates the time of a compiled program: its instructions are counted on one sample, a random one if none is given, where
    that can be done; else it is estimated from multiplications, and says so."""
    core = _core_on(program.target.core, on)
    counter = countable(core, on)
    if not counter.ok:
        return _uncounted(program, conditions, core, counter.what or counter.got)
    sample = sample or random_samples(program.graph, 1, seed=0)[0]
    try:
        with temporary_project(program.files) as folder:
            estimate = estimate_folder(folder, conditions, sample, on, timeout)
    except counting.NotCountedError as error:
        return _uncounted(program, conditions, core, f"{error.what} ({error.here})")
    return _with_npu(estimate, program, conditions)


def countable(core: Core, on: str | None = None) -> Verdict:
    """Says whether instructions of a core can be counted here: on which board, or what is missing."""
    board = on or core.board or STAND_INS.get(core.name)
    if board is None:
        return Verdict(
            "time.board", False, "an emulated board that runs the kernels", core.name, "none has such a core"
        )
    found = judged("time.tools", ARM_COMPILER.path, DISASSEMBLER.path, QEMU.path, host_compiler)
    return dataclasses.replace(found, got=board) if found.ok else found


def estimate_folder(
    folder: Path,
    conditions: Conditions,
    sample: Sequence[Array],
    on: str | None = None,
    timeout: float = TIMEOUT_SECONDS,
) -> TimeEstimate:
    """Estimates the time of a C project on one sample, counted on a board."""
    manifest = read_manifest(folder)
    named = _core_on(find_target(manifest.target).core, on)
    counter = countable(named, on)
    if not counter.ok:
        raise PillionError(
            f"the instructions of `{manifest.model}` cannot be counted",
            rule=counter.wanted,
            here=counter.got,
            help=counter.help or "`pillion compile --clock` estimates from multiplications then",
        )
    board = dataclasses.replace(BOARDS[counter.got], optimize=manifest.optimize)
    check_board(manifest, board)
    windows = _windows(folder, manifest, board, sample, timeout)
    return _counted(manifest, windows, named, board, conditions)


def _core_on(core: Core, on: str | None) -> Core:
    """The core whose cycles count: that of the board, or the program's own where the board only stands in for it."""
    stands_in = on is None or STAND_INS.get(core.name) == on
    return core if stands_in or on is None else CORES[BOARDS[on].core]


def _windows(
    folder: Path, manifest: Manifest, board: Board, sample: Sequence[Array], timeout: float
) -> list[Executed]:
    raw = b"".join(np.ascontiguousarray(x).tobytes() for x in sample)
    counted = counting.count(folder, board, raw, len(manifest.ops), files=manifest.files, timeout=timeout)
    return [
        executed(
            (Ran(line.instruction, line.times, line.left) for line in window.lines),
            *(Touched(*touched) for touched in window.touched),
        )
        for window in counted
    ]


def _counted(
    manifest: Manifest, ran: Sequence[Executed], core: Core, board: Board, conditions: Conditions
) -> TimeEstimate:
    memories = conditions.memories or _usual_memories(find_target(manifest.target), core)
    pairs = [(op, one) for op, one in zip(manifest.ops, ran, strict=True) if op.kind != Segment.kind]
    ops = tuple(_op_time(op, one, core, memories, conditions.clock) for op, one in pairs)
    segments = len(manifest.ops) - len(pairs)
    basis = f"instructions by class, counted on {board.name}"
    if board.core != core.name:
        basis += f", whose {board.core} runs the same kernels"
    left_out = (
        f"{segments} segments of the NPU (`pillion explain --clock` estimates them)" if segments else ""
    )
    return TimeEstimate(core.name, conditions.clock, memories, basis, ops, left_out)


def _usual_memories(target: Target, core: Core) -> Memories:
    """What the chip has, where that is known and the core is its own."""
    is_its_own = target.memories and target.core == core
    return find_memories(target.memories) if is_its_own else usual_memories(core.name)


def _op_time(op: OpFacts, ran: Executed, core: Core, memories: Memories, clock: Clock) -> OpTime:
    cycles = counted_cycles(core, ran, memories, clock.hertz)
    return OpTime(op.name, op.kind, "cpu", cycles, cycles * (1e3 / clock.hertz), ran)


def _with_npu(estimate: TimeEstimate, program: Runnable, conditions: Conditions) -> TimeEstimate:
    """The estimate with the segments of the NPU in their places."""
    cpu = iter(estimate.ops)
    ops = tuple(
        _segment_time(op, program.target.npu, conditions) if isinstance(op, Segment) else next(cpu)
        for op in leaves(program.graph.ops)
    )
    return dataclasses.replace(estimate, ops=ops, left_out="", npu_clock=conditions.npu_clock)


def _segment_time(op: Segment, npu: Device | None, conditions: Conditions) -> OpTime:
    assert npu is not None
    cycles = npu.uncertainty * (npu.dispatch_cycles + sum(map(npu.estimate, op.body.ops)))
    clock = conditions.npu_clock or conditions.clock
    return OpTime(op.name, op.kind, "npu", cycles, cycles * (1e3 / clock.hertz))


def _uncounted(program: Runnable, conditions: Conditions, core: Core, why: str) -> TimeEstimate:
    """From what the ops multiply and move, with a band that is wider for it."""
    cpu = [one for one in runs(program.graph.ops) if not isinstance(one.op, Segment)]
    ops = tuple(_uncounted_op(one, core, conditions.clock) for one in cpu)
    memories = conditions.memories or _usual_memories(program.target, core)
    basis = f"{MULTIPLICATIONS} and elements of each op, nothing was run: {why}"
    estimate = TimeEstimate(core.name, conditions.clock, memories, basis, ops)
    return _with_npu(estimate, program, conditions)


def _uncounted_op(one: Runs, core: Core, clock: Clock) -> OpTime:
    op, cycles = one.op, uncounted_cycles(core, one.op) * one.times
    return OpTime(op.name, op.kind, "cpu", cycles, cycles * (1e3 / clock.hertz))
