# SPDX-License-Identifier: Apache-2.0
"""`pillion eval` on a cluster: the data is read here, and workers compile the program's C once and run it on chunks of samples."""

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
from pillion.ir.types import Array
from pillion.outside.files import parts_of, read_whole
from pillion.run.executor import HOST, USUAL, Outputs, Runnable, RunOptions
from pillion.run.many import Chunk, many_runs
from pillion.run.project import temporary_project
from pillion.sweep.cluster import AHEAD, Workers
from pillion.sweep.work import ALONE


@dataclass(frozen=True)
class Project:
    """The files of a C project as they are sent to workers, and how they run it."""

    files: Mapping[str, bytes]
    options: RunOptions

    @property
    def key(self) -> str:
        """Gives a name for the content."""
        total = hashlib.sha256(repr(self.options).encode())
        for path, content in sorted(self.files.items()):
            total.update(f"{path}\0{len(content)}\0".encode())
            total.update(content)
        return total.hexdigest()


_OPEN: dict[str, Callable[[Iterable[Chunk]], Iterator[list[Outputs]]]] = {}
_ENDS = ExitStack()


Packed = list[Array]
"""The arrays of several samples, one on another: few large parts are sent sooner than many small ones."""


def packed(samples: Sequence[Sequence[Array]]) -> Packed:
    """Lays the arrays of samples on one another; those of one input or output are all alike."""
    return [np.stack(column) for column in zip(*samples, strict=True)]


def unpacked(stacks: Packed) -> list[tuple[Array, ...]]:
    """Gives the arrays of each sample again."""
    return [tuple(map(np.asarray, parts)) for parts in zip(*stacks, strict=True)]


def run_chunk(project: Project, key: str, chunk: Packed) -> Packed:
    """Runs a chunk in this worker, which keeps the last project compiled and its process running."""
    with ALONE:
        if key not in _OPEN:
            _OPEN.clear()
            _ENDS.close()
            folder = _ENDS.enter_context(temporary_project(project.files))
            _OPEN[key] = _ENDS.enter_context(many_runs(folder, HOST, 1, project.options))
        (outputs,) = _OPEN[key]([unpacked(chunk)])
        return packed(outputs)


def runs_on(workers: Workers) -> Callable[..., Any]:
    """Gives what takes the place of `many_runs`: chunks are run by the workers of a cluster."""

    @contextmanager
    def runs(
        program: Runnable | Path, on: str = HOST, count: int | None = None, options: RunOptions = USUAL
    ) -> Iterator[Callable[[Iterable[Chunk]], Iterator[list[Outputs]]]]:
        if on != HOST:
            raise PillionError(
                f"a cluster does not run programs on {on}",
                rule="its workers compile the generated C for themselves",
                here=f"--on {on} with --scheduler",
                help="leave one of them out",
            )
        project = Project(_files_of(program), options)
        yield lambda chunks: _in_order(workers, project, chunks)

    return runs


def _in_order(workers: Workers, project: Project, chunks: Iterable[Chunk]) -> Iterator[list[Outputs]]:
    """Keeps some chunks under way for each worker, and gives results in the order of the chunks."""
    key = project.key
    sent = workers.share(project)
    waiting: deque[Any] = deque()
    for chunk in chunks:
        waiting.append(workers.call(run_chunk, sent, key, packed(chunk)))
        if len(waiting) >= AHEAD * workers.count:
            yield unpacked(workers.answer(waiting.popleft()))
    while waiting:
        yield unpacked(workers.answer(waiting.popleft()))


def _files_of(program: Runnable | Path) -> dict[str, bytes]:
    if not isinstance(program, Path):
        return {path: b"".join(parts_of(content)) for path, content in program.files.items()}
    names = [*read_manifest(program).files, MANIFEST]
    return {name: read_whole(program / name, "C project's") for name in names}
