# SPDX-License-Identifier: Apache-2.0
"""Runs many samples: the generated C in a process per core, or any other executor."""

from __future__ import annotations

import os
import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pillion.boards.host import HostModel
from pillion.emitters.c.manifest import read_manifest
from pillion.errors import PillionError
from pillion.ir.types import Array
from pillion.run.executor import DEFAULTS, HOST, Outputs, Runnable, RunOptions, require_runnable
from pillion.run.executor_list import find_executor, run_folder
from pillion.run.host_executor import files_for_host, input_bytes, start_host_model
from pillion.run.project_folder import outputs_from_bytes, temporary_project

Chunk = Sequence[Sequence[Array]]
"""The inputs of some runs."""
RunChunk = Callable[[Chunk], list[Outputs]]
"""Returns the outputs of some samples."""
MOST_WORKERS = 256


def usable_core_count() -> int:
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_workers(workers: int | None) -> int:
    """Returns the number of processes; by default one per core."""
    if workers is None:
        return usable_core_count()
    if not 1 <= workers <= MOST_WORKERS:
        raise PillionError(
            f"{workers} processes are not possible",
            rule=f"1 to {MOST_WORKERS}",
            here=f"{workers}",
            help=f"--workers {usable_core_count()} uses every core of this computer",
        )
    return workers


@contextmanager
def open_chunk_runner(
    program: Runnable | Path, on: str = HOST, workers: int | None = None, options: RunOptions = DEFAULTS
) -> Iterator[Callable[[Iterable[Chunk]], Iterator[list[Outputs]]]]:
    """Yields a function that runs chunks of samples in order, for a program or a C project's folder. The
    generated C runs in `workers` processes. With `options.stream`, a chunk is a stream of its own, from a reset on."""
    count = check_workers(workers)
    with ExitStack() as stack:
        if on != HOST:
            yield lambda chunks: map(_chunk_runner(program, on, options), chunks)
            return
        if isinstance(program, Path):
            folder = program
        else:
            require_runnable(find_executor(HOST), program)
            folder = stack.enter_context(temporary_project(files_for_host(program, options)))
        manifest = read_manifest(folder)
        models: queue.SimpleQueue[HostModel] = queue.SimpleQueue()
        for _ in range(count):
            models.put(stack.enter_context(start_host_model(folder, manifest, options)))
        threads = stack.enter_context(ThreadPoolExecutor(count))

        def run(chunk: Chunk) -> list[Outputs]:
            model = models.get()
            try:
                if options.stream:
                    model.reset()
                answers = model.run_many([input_bytes(s) for s in chunk], stream=options.stream)
                return [outputs_from_bytes(manifest, raw) for raw in answers]
            finally:
                models.put(model)

        yield lambda chunks: _ordered_results(threads, run, chunks, 2 * count)


def _chunk_runner(program: Runnable | Path, on: str, options: RunOptions) -> RunChunk:
    """Returns the function that runs a chunk on an executor without a pool."""
    if isinstance(program, Path):
        folder = program
        return lambda chunk: [result.outputs for result in run_folder(folder, chunk, on, options)]
    executor, runnable = find_executor(on), program
    require_runnable(executor, runnable)
    return lambda chunk: [result.outputs for result in executor.run(runnable, chunk, options)]


def _ordered_results(
    threads: ThreadPoolExecutor, run: RunChunk, chunks: Iterable[Chunk], most: int
) -> Iterator[list[Outputs]]:
    """Yields results in the order of the chunks, with at most `most` chunks in progress."""
    waiting: deque[Future[list[Outputs]]] = deque()
    try:
        for chunk in chunks:
            waiting.append(threads.submit(run, chunk))
            if len(waiting) >= most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
