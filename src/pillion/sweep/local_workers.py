# SPDX-License-Identifier: Apache-2.0
"""Runs jobs in local processes. They communicate over pipes; no port opens."""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pillion.errors import PillionError
from pillion.host_io.process_guard import start, stop
from pillion.run.parallel_runs import check_workers
from pillion.sweep import job_worker
from pillion.sweep.job_result import JobOutput, killed_worker_output
from pillion.sweep.jobs import Job

ATTEMPTS = 3
"""Workers that a job may kill before it counts as failed."""
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
"""Environment of a worker: one thread."""


class _Process:
    """A worker process: it reads pickled jobs from standard input and writes pickled results to standard output.

    It has its own session, so that Ctrl-C does not reach it, and it ends with this process in any case."""

    def __init__(self) -> None:
        program = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve_jobs; serve_jobs()"
        environment = {**os.environ, **ONE_THREAD}
        command, pipe = [sys.executable, "-c", program], subprocess.PIPE
        self._process, self._guard = start(command, stdin=pipe, stdout=pipe, env=environment)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._jobs, self._results = self._process.stdin, self._process.stdout

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def fileno(self) -> int:
        """Returns the descriptor of the result pipe, for `select`."""
        return self._results.fileno()

    def send(self, job: Job) -> None:
        """Sends the worker a job. If it has died, `receive` reports that."""
        with suppress(BrokenPipeError), open(self._jobs.fileno(), "wb", closefd=False) as pipe:
            pickle.dump(job, pipe)

    def receive(self) -> JobOutput | PillionError | None:
        """Returns the result of the job, or None if the worker died."""
        with suppress(EOFError, pickle.UnpicklingError), open(self.fileno(), "rb", closefd=False) as pipe:
            answer: JobOutput | PillionError = pickle.load(pipe)
            return answer
        return None

    def end(self) -> None:
        """Kills the process and its children."""
        stop(self._process, self._guard)
        self._jobs.close()
        self._results.close()


class LocalWorkers:
    """Worker processes with one job each; dead ones are replaced."""

    def __init__(self, count: int) -> None:
        self._idle = [_Process() for _ in range(count)]
        self._busy: dict[_Process, Job] = {}
        self._queue: deque[Job] = deque()
        self._attempts: dict[str, int] = {}

    @property
    def pids(self) -> set[int]:
        """The process ids."""
        return {process.pid for process in (*self._idle, *self._busy)}

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
            for process in select.select(list(self._busy), [], [])[0]:
                job = self._busy.pop(process)
                answer = process.receive()
                if answer is None:
                    process.end()
                    process, answer = _Process(), self._requeue_or_fail(job)
                self._idle.append(process)
                self._assign_jobs()
                if isinstance(answer, PillionError):
                    raise answer
                if answer is not None:
                    return job, answer

    def _assign_jobs(self) -> None:
        while self._idle and self._queue:
            process, job = self._idle.pop(), self._queue.popleft()
            self._busy[process] = job
            process.send(job)

    def _requeue_or_fail(self, job: Job) -> JobOutput | None:
        """Requeues the job of a dead worker first, or returns it as failed."""
        attempts = self._attempts[job.key] = self._attempts.get(job.key, 0) + 1
        if attempts >= ATTEMPTS:
            return killed_worker_output(job.model)
        self._queue.appendleft(job)
        return None

    def close(self) -> None:
        """Kills all processes."""
        for process in (*self._idle, *self._busy):
            process.end()


def serve_jobs() -> None:
    """Runs jobs in this worker process until standard input closes. Output of jobs goes to standard error."""
    with os.fdopen(os.dup(0), "rb") as jobs, os.fdopen(os.dup(1), "wb") as results:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        while True:
            try:
                job = pickle.load(jobs)
            except EOFError:
                return
            try:
                answer: JobOutput | PillionError = job_worker.run_job(job)
            except PillionError as error:
                answer = error
            pickle.dump(answer, results)
            results.flush()


@contextmanager
def local_workers(count: int | None) -> Iterator[LocalWorkers]:
    """Starts local workers, by default one per processor."""
    workers = LocalWorkers(check_workers(count))
    try:
        yield workers
    finally:
        workers.close()
