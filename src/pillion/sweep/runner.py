# SPDX-License-Identifier: Apache-2.0
"""Obtains results of jobs, from the store or from workers. Workers start with the first job that needs one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Protocol

from pillion.sweep.cluster import JOBS_PER_WORKER
from pillion.sweep.job_result import JobOutput, JobResult
from pillion.sweep.jobs import Job
from pillion.sweep.store import Store


class Workers(Protocol):
    """Processes that run jobs, local or in a cluster."""

    @property
    def count(self) -> int:
        """The number of workers."""

    @property
    def waiting(self) -> int:
        """The number of unfinished jobs."""

    def submit(self, job: Job) -> None:
        """Submits a job."""

    def finished(self) -> tuple[Job, JobOutput]:
        """Waits for the next job to finish, in any order."""


Open = Callable[[], AbstractContextManager[Workers]]
"""Opens workers."""


@dataclass(frozen=True)
class SweepRow:
    """A job and its result."""

    job: Job
    result: JobResult


@dataclass
class Progress:
    """The progress of a sweep; calls its observer after each change."""

    total: int = 0
    done: int = 0
    failed: int = 0
    kept: int = 0
    """Results that were in the store before."""
    changed: Callable[[Progress], None] = field(default=lambda progress: None)

    def note(self, result: JobResult, is_kept: bool) -> None:
        """Counts a finished job."""
        self.done += 1
        self.kept += is_kept
        self.failed += result.failure is not None
        self.changed(self)


class Runner:
    """Obtains results. A context manager that ends the workers."""

    def __init__(self, store: Store, open_workers: Open, progress: Progress, retry: bool = False) -> None:
        self.store, self.progress = store, progress
        self._open, self._retry = open_workers, retry
        self._workers: Workers | None = None
        self._ends = ExitStack()
        self._redone: set[str] = set()

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *why: object) -> None:
        self._ends.close()

    def known(self, job: Job) -> JobResult | None:
        """Returns the stored result of a job that need not run again. Failures count only if they would recur, and
        never with `retry`."""
        result = self.store.find(job)
        if result is None or result.failure is None or job.key in self._redone:
            return result
        return result if result.failure.is_lasting and not self._retry else None

    @property
    def workers(self) -> Workers:
        """The workers, started on first use."""
        if self._workers is None:
            self._workers = self._ends.enter_context(self._open())
        return self._workers

    def finished(self) -> SweepRow:
        """Waits for the next job to finish, and stores its result."""
        job, done = self.workers.finished()
        self.store.keep(job, done)
        self._redone.add(job.key)
        self.progress.note(done.result, is_kept=False)
        return SweepRow(job, done.result)


def run_all(jobs: list[Job], runner: Runner) -> list[SweepRow]:
    """Returns a row per job, in order. Equal jobs run once."""
    results: dict[str, JobResult] = {}
    runner.progress.total = len({job.key for job in jobs})
    missing: dict[str, Job] = {}
    for job in jobs:
        if job.key in results or job.key in missing:
            continue
        result = runner.known(job)
        if result is None:
            missing[job.key] = job
        else:
            results[job.key] = result
            runner.progress.note(result, is_kept=True)
    for row in _run_jobs(list(missing.values()), runner):
        results[row.job.key] = row.result
    return [SweepRow(job, results[job.key]) for job in jobs]


def _run_jobs(jobs: list[Job], runner: Runner) -> Iterator[SweepRow]:
    """Yields results as jobs finish, with only a few more jobs submitted than there are workers."""
    most = JOBS_PER_WORKER * runner.workers.count if jobs else 0
    for job in jobs:
        while runner.workers.waiting >= most:
            yield runner.finished()
        runner.workers.submit(job)
    while jobs and runner.workers.waiting:
        yield runner.finished()
