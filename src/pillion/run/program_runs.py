# SPDX-License-Identifier: Apache-2.0
"""Runs programs: once, over time, measured, or on every executor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pillion.boards.board import find_board
from pillion.devices.clock import Clock
from pillion.host_io.progress import show_progress, stage
from pillion.run.executor import (
    REFERENCE,
    TIMEOUT_SECONDS,
    Outputs,
    Runnable,
    RunOptions,
    RunResult,
    require_runnable,
)
from pillion.run.executor_list import executors_of, find_executor
from pillion.run.input_checks import check_fit, fit_to_graph
from pillion.run.stream import StreamSession
from pillion.run.time_estimate import TimeEstimate, estimate_program, timing_conditions
from pillion.run.verify import SAMPLES, Verification
from pillion.run.verify import verify as verify_program


def run(program: Runnable, *inputs: Any, on: str = REFERENCE) -> Outputs:
    """Runs one sample from reset states, and returns its outputs as numpy arrays. `on` names an executor:
    `reference`, `host`, a board, `executorch`, `litert` or `npu`. For several runs in sequence, use
    `stream`."""
    return measure(program, *inputs, on=on, profile=False).outputs


def measure(
    program: Runnable,
    *inputs: Any,
    on: str,
    profile: bool = True,
    timeout: float = TIMEOUT_SECONDS,
    native: bool = False,
) -> RunResult:
    """Runs the program like `run`, and returns the board's measurements with the outputs."""
    arrays, executor = fit_to_graph(program.graph, inputs), find_executor(on)
    check_fit(program.graph, arrays)
    options = RunOptions(timeout, profile, native)
    require_runnable(executor, program)
    with show_progress(), stage(f"{'measuring' if profile else 'running'} on {on}"):
        return executor.run(program, [arrays], options)[0]


def stream(
    program: Runnable, on: str = REFERENCE, *, timeout: float = TIMEOUT_SECONDS, native: bool = False
) -> StreamSession:
    """Returns a session that keeps states between runs: `step` runs once, `run` several times, `reset` starts
    again. A program compiled with `stream` takes a few new frames per step. `on` names an executor, as in
    `run`."""
    return StreamSession(program, on, RunOptions(timeout, native=native))


def time(
    program: Runnable,
    clock: str | float | Clock,
    *inputs: Any,
    memories: str | None = None,
    npu_clock: str | float | Clock | None = None,
    on: str | None = None,
) -> TimeEstimate:
    """Estimates the time of a run at a clock (`"160MHz"`, or hertz), from `milliseconds.low` to
    `milliseconds.high`.

    Instructions are counted in the emulator if there is one, on a random sample unless inputs are passed;
    `basis` says what the estimate rests on. `memories` says where constants and arena are, `on` names
    another board than the target's."""
    arrays = fit_to_graph(program.graph, inputs)
    if arrays:
        check_fit(program.graph, arrays)
    conditions = timing_conditions(clock, npu_clock, memories)
    if on is not None:
        find_board(on)
    return estimate_program(program, conditions, on, arrays)


def verify(
    program: Runnable,
    samples: int = SAMPLES,
    *,
    seed: int = 0,
    inputs: Sequence[Any] | None = None,
    on: Sequence[str] = (),
) -> Verification:
    """Runs the program on every installed executor and compares all bytes. Without `inputs`, samples are
    random; for a program with states, each is a sequence of several steps. `inputs` holds an array per input; one
    array needs no list. `on` names further places, such as `serial:PORT`."""
    given = [inputs] if hasattr(inputs, "shape") else inputs
    arrays = fit_to_graph(program.graph, given) if given else None
    usual = executors_of(program)
    more = [find_executor(place) for place in on if place not in {one.name for one in usual}]
    return verify_program(program, samples, seed=seed, inputs=arrays, executors=[*usual, *more])
