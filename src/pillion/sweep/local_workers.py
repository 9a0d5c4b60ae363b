# SPDX-License-Identifier: Apache-2.0
"""Runs jobs in local processes. They communicate over pipes; no port opens."""

from __future__ import annotations

import os
import pickle
import select
import struct
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pillion.errors import PillionError
from pillion.host_io.child_process import MOST_SECONDS, Child, ChildEnded
from pillion.run.parallel_runs import check_workers
from pillion.sweep import job_worker
from pillion.sweep.job_result import JobOutput, killed_worker_output
from pillion.sweep.jobs import Job

ATTEMPTS = 3
"""Workers that a job may kill before it counts as failed."""
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
"""Environment of a worker: one thread."""


_LENGTH = struct.Struct("=Q")
"""The length before each pickled job and result."""


def _start_worker() -> Child:
    """Starts a worker in a session of its own, which Ctrl-C does not reach."""
    program = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve_jobs; serve_jobs()"
    return Child([sys.executable, "-c", program], env={**os.environ, **ONE_THREAD})


def _pack_message(thing: object) -> bytes:
    data = pickle.dumps(thing)
    return _LENGTH.pack(len(data)) + data


def _receive_result(child: Child) -> JobOutput | PillionError | None:
    """Returns the result of the job, or None if the worker died."""
    try:
        (length,) = _LENGTH.unpack(child.receive(_LENGTH.size, MOST_SECONDS))
        answer: JobOutput | PillionError = pickle.loads(child.receive(length, MOST_SECONDS))
    except (ChildEnded, pickle.UnpicklingError):
        return None
    return answer


class LocalWorkers:
    """Worker processes with one job each; dead ones are replaced."""

    def __init__(self, count: int) -> None:
        self._idle = [_start_worker() for _ in range(count)]
        self._busy: dict[Child, Job] = {}
        self._queue: deque[Job] = deque()
        self._attempts: dict[str, int] = {}

    @property
    def pids(self) -> set[int]:
        """The process ids."""
        return {child.pid for child in (*self._idle, *self._busy)}

    @property
    def count(self) -> int:
        """The number of workers."""
        return len(self._idle) + len(self._busy)

    @property
    def waiting(self) -> int:
        """The number of unfinished jobs."""
        return len(self._queue) + len(self._busy)

    def submit(self, job: Job) -> None:
        """Sends a job to the next idle worker."""
        self._queue.append(job)
        self._assign_jobs()

    def finished(self) -> tuple[Job, JobOutput]:
        """Waits for the next job to finish, in any order. Raises the error of a worker that can run none of the
        jobs."""
        while True:
            dead = [child for child in self._busy if not child.alive]
            for child in dead or select.select(list(self._busy), [], [])[0]:
                job = self._busy.pop(child)
                answer = _receive_result(child)
                if answer is None:
                    child.close()
                    child, answer = _start_worker(), self._requeue_or_fail(job)
                self._idle.append(child)
                self._assign_jobs()
                if isinstance(answer, PillionError):
                    raise answer
                if answer is not None:
                    return job, answer

    def _assign_jobs(self) -> None:
        while self._idle and self._queue:
            child, job = self._idle.pop(), self._queue.popleft()
            self._busy[child] = job
            with suppress(ChildEnded):  # `finished` reports it
                child.send(_pack_message(job), MOST_SECONDS)

    def _requeue_or_fail(self, job: Job) -> JobOutput | None:
        """Requeues the job of a dead worker first, or returns it as failed."""
        attempts = self._attempts[job.key] = self._attempts.get(job.key, 0) + 1
        if attempts >= ATTEMPTS:
            return killed_worker_output(job.model)
        self._queue.appendleft(job)
        return None

    def close(self) -> None:
        """Kills all processes."""
        for child in (*self._idle, *self._busy):
            child.close()


def serve_jobs() -> None:
    """Runs jobs in this worker process until standard input closes. Output of jobs goes to standard error."""
    with os.fdopen(os.dup(0), "rb") as jobs, os.fdopen(os.dup(1), "wb") as results:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        while jobs.read(_LENGTH.size):
            try:
                answer: JobOutput | PillionError = job_worker.run_job(pickle.load(jobs))
            except PillionError as error:
                answer = error
            results.write(_pack_message(answer))
            results.flush()


@contextmanager
def local_workers(count: int | None) -> Iterator[LocalWorkers]:
    """Starts local workers, by default one per processor."""
    workers = LocalWorkers(check_workers(count))
    try:
        yield workers
    finally:
        workers.close()
