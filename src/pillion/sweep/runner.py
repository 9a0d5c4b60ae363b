# SPDX-License-Identifier: Apache-2.0
"""Jobs get results: those that the store has, and those that workers have to do. Workers are there from the first job on that
needs one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field

from pillion.sweep.cluster import AHEAD, Workers
from pillion.sweep.jobs import Job
from pillion.sweep.result import Result
from pillion.sweep.store import Store

Open = Callable[[], AbstractContextManager[Workers]]
"""Opens workers."""


@dataclass(frozen=True)
class Row:
    """A job and its result."""

    job: Job
    result: Result


@dataclass
class Progress:
    """How far a sweep has come. Whoever shows it is called after each change."""

    total: int = 0
    done: int = 0
    failed: int = 0
    kept: int = 0
    """How many results were there before."""
    dashboard: str = ""
    changed: Callable[[Progress], None] = field(default=lambda progress: None)

    def note(self, result: Result, is_kept: bool) -> None:
        """Counts a job that has a result now."""
        self.done += 1
        self.kept += is_kept
        self.failed += result.failure is not None
        self.changed(self)


class Runner:
    """Finds results or has them made. Within `with`, which ends the workers."""

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

    def known(self, job: Job) -> Result | None:
        """Gives the result of a job that need not be done again: of failures only those that would happen again, and with `retry`
        none."""
        result = self.store.find(job)
        if result is None or result.failure is None or job.key in self._redone:
            return result
        return result if result.failure.is_lasting and not self._retry else None

    @property
    def workers(self) -> Workers:
        """The workers, which are started when they are first asked for."""
        if self._workers is None:
            self._workers = self._ends.enter_context(self._open())
            self.progress.dashboard = self._workers.dashboard
            self.progress.changed(self.progress)
        return self._workers

    def finished(self) -> Row:
        """Waits for the next job that a worker finishes, and keeps what came of it."""
        job, done = self.workers.finished()
        self.store.keep(job, done)
        self._redone.add(job.key)
        self.progress.note(done.result, is_kept=False)
        return Row(job, done.result)


def run_all(jobs: list[Job], runner: Runner) -> list[Row]:
    """Gives a row for each job, in their order; equal jobs are done once."""
    found: dict[str, Result] = {}
    runner.progress.total = len({job.key for job in jobs})
    missing: dict[str, Job] = {}
    for job in jobs:
        if job.key in found or job.key in missing:
            continue
        result = runner.known(job)
        if result is None:
            missing[job.key] = job
        else:
            found[job.key] = result
            runner.progress.note(result, is_kept=True)
    for row in _done(list(missing.values()), runner):
        found[row.job.key] = row.result
    return [Row(job, found[job.key]) for job in jobs]


def _done(jobs: list[Job], runner: Runner) -> Iterator[Row]:
    """What comes of jobs, in the order in which they finish; never many more than there are workers are handed out at once."""
    most = AHEAD * runner.workers.count if jobs else 0
    for job in jobs:
        while runner.workers.waiting >= most:
            yield runner.finished()
        runner.workers.submit(job)
    while jobs and runner.workers.waiting:
        yield runner.finished()
