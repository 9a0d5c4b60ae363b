# SPDX-License-Identifier: Apache-2.0
"""Byte-for-byte agreement of executors on samples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pillion.data.sample import Array
from pillion.errors import PillionError
from pillion.evaluation.evaluation_result import Agreement
from pillion.evaluation.program_io import ProgramIo
from pillion.run.executor import Runnable, RunOptions
from pillion.run.first_difference import bytes_different
from pillion.run.parallel_runs import open_chunk_runner


def agreement(
    program: Runnable | Path,
    io: ProgramIo,
    runs: Sequence[tuple[Array, ...]],
    other: str,
    on: str,
    options: RunOptions,
) -> Agreement:
    """Runs samples, or the steps of a stream, on two executors and compares all bytes of all outputs."""
    outputs = []
    for executor in (on, other):
        try:
            with open_chunk_runner(program, executor, 1, options) as run:
                outputs.append([output for chunk in run([runs]) for output in chunk])
        except PillionError as error:
            if executor == on:
                raise
            return Agreement(other, 0, 0, 0, skipped=f"{error.what}: {error.here}")
    counts = [bytes_different(a, b) for a, b in zip(*outputs, strict=True)]
    return Agreement(other, len(runs), counts.count(0), sum(counts))
