# SPDX-License-Identifier: Apache-2.0
"""`pillion eval` on a cluster: this process reads the data, workers compile the C once and run it on chunks of
samples."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pillion.emitters.c.manifest import MANIFEST, read_manifest
from pillion.errors import PillionError
from pillion.host_io.atomic_files import parts_of, read_whole
from pillion.ir.types import Array
from pillion.run.executor import DEFAULTS, HOST, Outputs, Runnable, RunOptions
from pillion.run.parallel_runs import Chunk, open_chunk_runner
from pillion.run.project_folder import temporary_project
from pillion.sweep.cluster import AHEAD, ClusterWorkers
from pillion.sweep.job_worker import ALONE


@dataclass(frozen=True)
class WorkerProject:
    """A C project as it is sent to workers, with its run settings."""

    files: Mapping[str, bytes]
    options: RunOptions

    @property
    def key(self) -> str:
        """A hash of the project's content."""
        total = hashlib.sha256(repr(self.options).encode())
        for path, content in sorted(self.files.items()):
            total.update(f"{path}\0{len(content)}\0".encode())
            total.update(content)
        return total.hexdigest()


_OPEN: dict[str, Callable[[Iterable[Chunk]], Iterator[list[Outputs]]]] = {}
_ENDS = ExitStack()


Packed = list[Array]
"""The arrays of several samples, stacked: a few large parts transfer faster than many small ones."""


def stack_samples(samples: Sequence[Sequence[Array]]) -> Packed:
    """Stacks the arrays of samples, input by input."""
    return [np.stack(column) for column in zip(*samples, strict=True)]


def split_stacks(stacks: Packed) -> list[tuple[Array, ...]]:
    """Splits stacks into the arrays of each sample."""
    return [tuple(map(np.asarray, parts)) for parts in zip(*stacks, strict=True)]


def run_chunk(project: WorkerProject, key: str, chunk: Packed) -> Packed:
    """Runs a chunk in this worker. The worker keeps its last project compiled and running."""
    with ALONE:
        if key not in _OPEN:
            _OPEN.clear()
            _ENDS.close()
            folder = _ENDS.enter_context(temporary_project(project.files))
            _OPEN[key] = _ENDS.enter_context(open_chunk_runner(folder, HOST, 1, project.options))
        (outputs,) = _OPEN[key]([split_stacks(chunk)])
        return stack_samples(outputs)


def cluster_chunk_runner(workers: ClusterWorkers) -> Callable[..., Any]:
    """Returns a replacement for `many_runs` that runs chunks on cluster workers."""

    @contextmanager
    def runs(
        program: Runnable | Path, on: str = HOST, count: int | None = None, options: RunOptions = DEFAULTS
    ) -> Iterator[Callable[[Iterable[Chunk]], Iterator[list[Outputs]]]]:
        if on != HOST:
            raise PillionError(
                f"a cluster does not run programs on {on}",
                rule="its workers compile the generated C for themselves",
                here=f"--on {on} with --scheduler",
                help="leave one of them out",
            )
        project = WorkerProject(_project_files(program), options)
        yield lambda chunks: _ordered_results(workers, project, chunks)

    return runs


def _ordered_results(
    workers: ClusterWorkers, project: WorkerProject, chunks: Iterable[Chunk]
) -> Iterator[list[Outputs]]:
    """Keeps several chunks in flight per worker, and yields results in the order of the chunks."""
    key = project.key
    sent = workers.share(project)
    waiting: deque[Any] = deque()
    for chunk in chunks:
        waiting.append(workers.call(run_chunk, sent, key, stack_samples(chunk)))
        if len(waiting) >= AHEAD * workers.count:
            yield split_stacks(workers.answer(waiting.popleft()))
    while waiting:
        yield split_stacks(workers.answer(waiting.popleft()))


def _project_files(program: Runnable | Path) -> dict[str, bytes]:
    if not isinstance(program, Path):
        return {path: b"".join(parts_of(content)) for path, content in program.files.items()}
    names = [*read_manifest(program).files, MANIFEST]
    return {name: read_whole(program / name, "C project's") for name in names}
