# SPDX-License-Identifier: Apache-2.0
"""Compares all executors byte for byte; finds the op and element of the first difference."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pillion.emitters.c.manifest import Manifest, read_manifest
from pillion.errors import PillionError
from pillion.host_io.progress import show_progress, stage
from pillion.ir.graph import Graph
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict
from pillion.run.emulated_board import board_of
from pillion.run.executor import (
    HOST,
    NPU,
    REFERENCE,
    Executor,
    Outputs,
    Runnable,
    RunOptions,
    RunResult,
    Samples,
    verdict_of_checks,
)
from pillion.run.executor_list import executors_of, require_tools, run_folder
from pillion.run.first_difference import Difference, bytes_different, first_difference
from pillion.run.input_checks import check_fit
from pillion.run.npu_project import require_npu_code
from pillion.run.random_inputs import random_samples, samples_of_manifest

__all__ = ["Difference", "ExecutorPair", "Verification", "VerifiedRun", "verify", "verify_project"]

SAMPLES = 3
STEPS = 8
"""The steps per sample of programs with states, each sample from reset states."""
VERIFY_OPTIONS = RunOptions(timeout=600.0, stream=True)
"""The options of a verification: MobileNetV2 at 224 x 224 takes some seconds on a board."""


Streams = Sequence[Samples]
"""Sequences of runs, each from reset states."""


@dataclass(frozen=True)
class VerifiedRun:
    """The outputs of one executor, or the reason why it has none."""

    executor: str
    outputs: tuple[Outputs, ...] = ()
    seconds: float = 0.0
    skipped: Verdict | None = None
    """Why this executor did not run."""
    failed: PillionError | None = None
    """Why this executor failed."""

    @property
    def has_run(self) -> bool:
        """Whether the executor returned outputs."""
        return not (self.skipped or self.failed)


@dataclass(frozen=True)
class ExecutorPair:
    """Two executors, and the number of differing output bytes."""

    first: str
    second: str
    bytes_different: int


@dataclass(frozen=True)
class Verification:
    """The result of `pillion verify`: all runs, the compared pairs, and the first differences."""

    model: str
    target: str
    samples: int
    runs: tuple[VerifiedRun, ...]
    pairs: tuple[ExecutorPair, ...]
    differences: tuple[Difference, ...]
    steps: int = 1
    """The runs per sample, more than one for programs with states."""

    @property
    def nothing_compared(self) -> bool:
        """Whether fewer than two executors ran and none failed: neither a pass nor a failure."""
        return not self.pairs and not any(run.failed for run in self.runs)

    @property
    def ok(self) -> bool:
        """Whether at least two executors ran, none failed, and all bytes are equal."""
        failed = any(run.failed for run in self.runs)
        return bool(self.pairs) and not failed and not any(pair.bytes_different for pair in self.pairs)


def verify(
    program: Runnable,
    samples: int = SAMPLES,
    *,
    seed: int = 0,
    inputs: Sequence[Array] | None = None,
    executors: Sequence[Executor] | None = None,
) -> Verification:
    """Runs a program on all executors. Without `inputs` the samples are random; for programs with states they
    are streams."""
    _check_sample_count(samples)
    graph, taking_part = program.graph, executors_of(program) if executors is None else executors
    data, steps = _choose_samples(
        samples, bool(graph.states), inputs, lambda n: random_samples(graph, n, seed)
    )
    for sample in data:
        check_fit(graph, sample)
    streams = _group_into_streams(data, steps)
    with show_progress():
        runs = tuple(_run_executor(executor, program, streams) for executor in taking_part)
        differences = tuple(_first_differences(program, taking_part, runs, streams))
    count, pairs = len(data) // steps, compare_pairs(runs)
    return Verification(graph.name, program.target.name, count, runs, pairs, differences, steps)


def _choose_samples(
    samples: int, has_states: bool, inputs: Sequence[Array] | None, draw: Callable[[int], Samples]
) -> tuple[Samples, int]:
    """Returns the user's inputs or random samples, and the steps of each."""
    if inputs:
        return [list(inputs)], 1
    steps = STEPS if has_states else 1
    return draw(samples * steps), steps


def _group_into_streams(data: Sequence[Sequence[Array]], steps: int) -> Streams:
    """Returns the runs that belong together; without states, all samples do."""
    together = steps if steps > 1 else len(data)
    return [data[at : at + together] for at in range(0, len(data), together)]


def verify_project(
    folder: Path,
    samples: int = SAMPLES,
    *,
    seed: int = 0,
    inputs: Sequence[Array] | None = None,
    on: Sequence[str] = (),
) -> Verification:
    """Runs a C project on this computer, on an emulated board and `on` further places, and compares all bytes. A project
    has no graph, so the reference is missing."""
    _check_sample_count(samples)
    manifest = read_manifest(folder)
    data, steps = _choose_samples(
        samples, bool(manifest.states), inputs, lambda n: samples_of_manifest(manifest.inputs, n, seed)
    )
    streams = _group_into_streams(data, steps)
    with show_progress():
        names = dict.fromkeys((*_project_executors(folder, manifest), *on))
        runs = tuple(_run_folder(folder, name, streams) for name in names)
    count, pairs = len(data) // steps, compare_pairs(runs)
    return Verification(manifest.model, manifest.target, count, runs, pairs, (), steps)


def _project_executors(folder: Path, manifest: Manifest) -> tuple[str, ...]:
    """Returns this computer, a board and, if the project has NPU code, the NPU."""
    with_code = verdict_of_checks("npu.code", lambda: require_npu_code(folder, manifest)).ok
    return (HOST, board_of(manifest).name, *([NPU] if with_code else []))


def _check_sample_count(samples: int) -> None:
    if not isinstance(samples, int):
        raise PillionError(
            "the number of samples is not a number",
            rule="verify(3) takes 3 random samples, verify(inputs=[x]) your own, an array for each input",
            here=f"a {type(samples).__name__}",
            help="verify(inputs=[x.numpy()])",
        )
    if samples < 1:
        raise PillionError(
            "nothing would be compared",
            rule="at least one sample",
            here=f"{samples} samples",
            help="verify(3), or leave the number out",
        )


def _run_executor(executor: Executor, program: Runnable, streams: Streams) -> VerifiedRun:
    def run(stream: Samples) -> list[RunResult]:
        made = executor.run(program, stream, VERIFY_OPTIONS)
        for result in made:
            _check_types(executor.name, program.graph, result.outputs)
        return made

    return _run_streams(executor.name, executor.judge(program), streams, run)


def _run_streams(
    on: str, verdict: Verdict, streams: Streams, run: Callable[[Samples], list[RunResult]]
) -> VerifiedRun:
    if not verdict.ok:
        return VerifiedRun(on, skipped=verdict)
    start = time.perf_counter()
    many = f"{len(streams)} streams" if len(streams) > 1 else f"{len(streams[0])} samples"
    try:
        with stage(f"verifying on {on}: {many}"):
            outputs = tuple(result.outputs for stream in streams for result in run(stream))
    except PillionError as error:
        return VerifiedRun(on, failed=error)
    return VerifiedRun(on, outputs, time.perf_counter() - start)


def _check_types(executor: str, graph: Graph, outputs: Outputs) -> None:
    expected = [f"{v.dtype.value}{list(v.shape)}" for v in graph.outputs]
    got = [f"{array.dtype}{list(array.shape)}" for array in outputs]
    if got != expected:
        raise PillionError(
            f"{executor} gives other outputs than `{graph.name}` has",
            rule=", ".join(expected),
            here=", ".join(got),
            help="was the program changed after it was written? compile the model again",
        )


def _run_folder(folder: Path, on: str, streams: Streams) -> VerifiedRun:
    verdict = verdict_of_checks("tools", lambda: require_tools(on))
    return _run_streams(on, verdict, streams, lambda stream: run_folder(folder, stream, on, VERIFY_OPTIONS))


def _first_differences(
    program: Runnable, executors: Sequence[Executor], runs: Sequence[VerifiedRun], streams: Streams
) -> Iterator[Difference]:
    """Yields the first difference of each executor from the reference."""
    reference = next((run for run in runs if run.executor == REFERENCE and run.has_run), None)
    for executor, run in zip(executors, runs, strict=True):
        if reference is None or not run.has_run:
            continue
        pairs = zip(reference.outputs, run.outputs, strict=True)
        number = next((i for i, (expected, got) in enumerate(pairs) if bytes_different(expected, got)), None)
        if number is not None:
            with stage(f"looking for where {executor.name} begins to differ"):
                stream, step = _stream_and_index(streams, number)
                difference = first_difference(program, executor, stream, step, run.outputs[number])
                yield replace(difference, sample=number)


def _stream_and_index(streams: Streams, number: int) -> tuple[Samples, int]:
    """Returns the stream of a run, and its index there."""
    for stream in streams:
        if number < len(stream):
            return stream, number
        number -= len(stream)
    raise AssertionError("each output is of a run")


def compare_pairs(runs: Sequence[VerifiedRun]) -> tuple[ExecutorPair, ...]:
    """Returns all pairs of executors that ran, with the number of bytes that differ."""
    return tuple(
        ExecutorPair(
            a.executor,
            b.executor,
            sum(bytes_different(x, y) for x, y in zip(a.outputs, b.outputs, strict=True)),
        )
        for a, b in itertools.combinations([run for run in runs if run.has_run], 2)
    )
