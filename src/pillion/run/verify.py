# SPDX-License-Identifier: Apache-2.0
"""All executors against each other, byte for byte; where they differ, the op and the element in which it begins."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pillion.emitters.c.manifest import Manifest, read_manifest
from pillion.emitters.c.project import boards_for
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.types import Array
from pillion.ir.verdict import Verdict
from pillion.outside.progress import shown, stage
from pillion.run.difference import Difference, bytes_different, first_difference
from pillion.run.executor import (
    HOST,
    NPU,
    REFERENCE,
    Executor,
    Outputs,
    Runnable,
    RunOptions,
    Samples,
    judged,
)
from pillion.run.inputs import check_fit
from pillion.run.npu_project import want_code
from pillion.run.places import executors_of, run_folder, want_tools
from pillion.run.samples import random_samples, samples_of_manifest
from pillion.targets import find_target

__all__ = ["Difference", "Pair", "Run", "Verification", "verify", "verify_project"]

SAMPLES = 3
STEPS = 8
"""Of programs with states, each sample is a stream of so many steps, before which they are reset."""
PATIENT = RunOptions(timeout=600.0, stream=True)
"""Time for one sample: MobileNetV2 at 224 x 224 takes some seconds on a board."""


Streams = Sequence[Samples]
"""Runs that follow one another, each time from reset states."""


@dataclass(frozen=True)
class Run:
    """The result of one executor: outputs for each sample, or the reason why there are none."""

    executor: str
    outputs: tuple[Outputs, ...] = ()
    seconds: float = 0.0
    skipped: Verdict | None = None
    """Why this executor did not take part."""
    failed: PillionError | None = None
    """Why it took part and did not finish."""

    @property
    def has_run(self) -> bool:
        """Whether the executor has given outputs."""
        return not (self.skipped or self.failed)


@dataclass(frozen=True)
class Pair:
    """Two executors, and in how many bytes of all outputs they differ."""

    first: str
    second: str
    bytes_different: int


@dataclass(frozen=True)
class Verification:
    """What `pillion verify` found: all runs, the pairs that were compared, and where they differ."""

    model: str
    target: str
    samples: int
    runs: tuple[Run, ...]
    pairs: tuple[Pair, ...]
    differences: tuple[Difference, ...]
    steps: int = 1
    """How many runs a sample is: more than one of a program with states."""

    @property
    def nothing_compared(self) -> bool:
        """Whether fewer than two executors took part, and none failed: no answer, neither good nor bad."""
        return not self.pairs and not any(run.failed for run in self.runs)

    @property
    def ok(self) -> bool:
        """Whether two executors at least have run, none failed, and all bytes are equal."""
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
    """Runs a program on everything that can run it. Without `inputs`, on random samples; of a program with states, on streams."""
    _check_count(samples)
    graph = program.graph
    steps = STEPS if graph.states and not inputs else 1
    data = [list(inputs)] if inputs else random_samples(graph, samples * steps, seed)
    for sample in data:
        check_fit(graph, sample)
    taking_part = executors_of(program) if executors is None else executors
    streams = _streams(data, steps)
    with shown():
        runs = tuple(_run(executor, program, streams) for executor in taking_part)
        differences = tuple(_differences(program, taking_part, runs, streams))
    return Verification(
        graph.name, program.target.name, len(data) // steps, runs, _pairs(runs), differences, steps
    )


def _streams(data: Sequence[Sequence[Array]], steps: int) -> Streams:
    """What runs together. Without states, samples have nothing to do with one another."""
    together = steps if steps > 1 else len(data)
    return [data[at : at + together] for at in range(0, len(data), together)]


def verify_project(
    folder: Path, samples: int = SAMPLES, *, seed: int = 0, inputs: Sequence[Array] | None = None
) -> Verification:
    """Runs a C project on this computer and on a board, and compares all bytes. No reference is in it, and no graph."""
    _check_count(samples)
    manifest = read_manifest(folder)
    steps = STEPS if manifest.states and not inputs else 1
    data = [list(inputs)] if inputs else samples_of_manifest(manifest.inputs, samples * steps, seed)
    streams = _streams(data, steps)
    with shown():
        runs = tuple(_run_folder(folder, name, streams) for name in _places(folder, manifest))
    return Verification(manifest.model, manifest.target, len(data) // steps, runs, _pairs(runs), (), steps)


def _places(folder: Path, manifest: Manifest) -> tuple[str, ...]:
    """This computer, a board and, where a project holds its code, the NPU."""
    with_code = judged("npu.code", lambda: want_code(folder, manifest)).ok
    return (HOST, _board_of(manifest), *([NPU] if with_code else []))


def _check_count(samples: int) -> None:
    if samples < 1:
        raise PillionError(
            "nothing would be compared",
            rule="at least one sample",
            here=f"{samples} samples",
            help="verify(3), or leave the number out",
        )


def _run(executor: Executor, program: Runnable, streams: Streams) -> Run:
    verdict = executor.judge(program)
    if not verdict.ok:
        return Run(executor.name, skipped=verdict)
    start = time.perf_counter()
    try:
        with stage(_words(executor.name, streams)):
            outputs = tuple(
                result.outputs for stream in streams for result in executor.run(program, stream, PATIENT)
            )
        for sample in outputs:
            _check_types(executor.name, program.graph, sample)
    except PillionError as error:
        return Run(executor.name, failed=error)
    return Run(executor.name, outputs, time.perf_counter() - start)


def _check_types(executor: str, graph: Graph, outputs: Outputs) -> None:
    wanted = [f"{v.dtype.value}{list(v.shape)}" for v in graph.outputs]
    got = [f"{array.dtype}{list(array.shape)}" for array in outputs]
    if got != wanted:
        raise PillionError(
            f"{executor} gives other outputs than `{graph.name}` has",
            rule=", ".join(wanted),
            here=", ".join(got),
            help="was the program changed after it was written? compile the model again",
        )


def _board_of(manifest: Manifest) -> str:
    """The board of a project's target, or the first one that can run its kernels."""
    target = find_target(manifest.target)
    return target.board or boards_for(manifest.kernels or target.isa)[0].name


def _words(on: str, streams: Streams) -> str:
    many = f"{len(streams)} streams" if len(streams) > 1 else f"{len(streams[0])} samples"
    return f"verifying on {on}: {many}"


def _run_folder(folder: Path, on: str, streams: Streams) -> Run:
    verdict = judged("tools", lambda: want_tools(on))
    if not verdict.ok:
        return Run(on, skipped=verdict)
    start = time.perf_counter()
    try:
        with stage(_words(on, streams)):
            outputs = tuple(
                result.outputs for stream in streams for result in run_folder(folder, stream, on, PATIENT)
            )
    except PillionError as error:
        return Run(on, failed=error)
    return Run(on, outputs, time.perf_counter() - start)


def _differences(
    program: Runnable,
    executors: Sequence[Executor],
    runs: Sequence[Run],
    streams: Streams,
) -> Iterator[Difference]:
    """For each executor that differs from the reference, where that begins."""
    reference = next((run for run in runs if run.executor == REFERENCE and run.has_run), None)
    for executor, run in zip(executors, runs, strict=True):
        if reference is None or not run.has_run:
            continue
        pairs = zip(reference.outputs, run.outputs, strict=True)
        number = next((i for i, (wanted, got) in enumerate(pairs) if bytes_different(wanted, got)), None)
        if number is not None:
            with stage(f"looking for where {executor.name} begins to differ"):
                stream, step = _place(streams, number)
                found = first_difference(program, executor, stream, step, run.outputs[number])
                yield replace(found, sample=number)


def _place(streams: Streams, number: int) -> tuple[Samples, int]:
    """The stream that a run belongs to, and its number there."""
    for stream in streams:
        if number < len(stream):
            return stream, number
        number -= len(stream)
    raise AssertionError("each output is of a run")


def _pairs(runs: Sequence[Run]) -> tuple[Pair, ...]:
    return tuple(
        Pair(
            a.executor,
            b.executor,
            sum(bytes_different(x, y) for x, y in zip(a.outputs, b.outputs, strict=True)),
        )
        for a, b in itertools.combinations([run for run in runs if run.has_run], 2)
    )
