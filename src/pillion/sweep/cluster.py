# SPDX-License-Identifier: Apache-2.0
"""Workers that do jobs: processes on this computer, or those of a scheduler that is there already. Dask hands jobs out, and hands
them out again where a worker dies."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pillion.errors import PillionError
from pillion.sweep import work
from pillion.sweep.jobs import Job
from pillion.sweep.result import Done, Failure, Result

PACKAGES = ("distributed", "optuna", "matplotlib")
CONNECT_SECONDS, WORKER_SECONDS = 10.0, 60.0
AHEAD = 4
"""Jobs that wait for each worker, so that none is idle while results are written."""
MOST_WORKERS = 256
QUIET = {"distributed.worker.profile.enabled": False}
"""Dask's settings for workers on this computer: their profiler looks at them a hundred times a second."""


def want_extra() -> None:
    """Raises where the packages for sweeps are not installed."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise PillionError(
            "sweeps need packages that are not installed",
            rule="the extra `sweep` of Pillion brings them",
            here=f"no {', '.join(missing)}",
            help="pip install 'pillion[sweep]'",
        )


def want_no_workers(scheduler: str | None, workers: int | None) -> None:
    """Raises where workers of this computer are asked for, and those of a cluster."""
    if scheduler is not None and workers is not None:
        raise PillionError(
            "--workers is for this computer",
            rule="a cluster that is there already has its workers",
            here=f"--scheduler {scheduler} --workers {workers}",
            help="leave one of them out",
        )


class Workers:
    """Workers that take jobs, and give back what came of them in the order in which they finish."""

    def __init__(self, client: Any, where: str) -> None:
        from distributed import as_completed

        self._client, self._where = client, where
        self._waiting: dict[Any, Job] = {}
        self._finished = as_completed([], loop=client.loop)

    @property
    def dashboard(self) -> str:
        """The address of a page that shows what the workers do."""
        return str(self._client.dashboard_link or "")

    @property
    def count(self) -> int:
        """How many workers there are now."""
        with _connected(self._client, self._where):
            return max(1, len(self._client.scheduler_info(n_workers=-1)["workers"]))

    @property
    def waiting(self) -> int:
        """How many jobs are not finished yet."""
        return len(self._waiting)

    def submit(self, job: Job) -> None:
        """Hands a job out."""
        name = f"{job.key}-{uuid.uuid4().hex[:8]}"
        with _connected(self._client, self._where):
            future = self._client.submit(work.do, job, key=name, pure=False)
        self._waiting[future] = job
        self._finished.add(future)

    def finished(self) -> tuple[Job, Done]:
        """Waits for the next job to finish, whichever that is."""
        future = next(self._finished)
        job = self._waiting.pop(future)
        with _connected(self._client, self._where):
            if future.status == "cancelled":
                raise went_away(self._where, "its connection was lost")
            if future.status != "error":
                return job, future.result()
            error = future.exception()
        return job, _died(job, error)

    def share(self, thing: Any) -> Any:
        """Hands all workers something that many calls take; it is made again where the worker that had it dies."""
        with _connected(self._client, self._where):
            return self._client.submit(_itself, thing, key=f"shared-{uuid.uuid4().hex[:8]}", pure=False)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Has a function called by a worker; `answer` waits for what it gives."""
        with _connected(self._client, self._where):
            return self._client.submit(function, *arguments, pure=False)

    def answer(self, future: Any) -> Any:
        """Waits for what a call gives."""
        with _connected(self._client, self._where):
            return future.result()


def _itself(thing: Any) -> Any:
    return thing


def _died(job: Job, error: BaseException) -> Done:
    """What becomes of a job that no worker came back from. Other errors end the sweep."""
    if isinstance(error, PillionError):
        raise error
    if type(error).__name__ != "KilledWorker":
        raise PillionError(
            "a worker cannot do jobs of this sweep",
            rule="workers have Pillion and PyTorch, in the versions of the computer that starts the sweep",
            here=f"{type(error).__name__}: {error}"[:500],
            help="pip install 'pillion[sweep]' where the workers run, and start them anew",
        ) from error
    failure = Failure(
        f"`{job.model}` ended its worker",
        "a job leaves its worker alive; it was tried on several",
        "killed again and again: for lack of memory, or by a crash",
        "fewer --workers leave each more memory; the next sweep tries it again",
        is_lasting=False,
    )
    return Done(Result(failure=failure))


def went_away(where: str, reason: str) -> PillionError:
    """Makes the error for a cluster that is no more."""
    return PillionError(
        f"the cluster at {where} went away",
        rule="the scheduler runs until the work is done",
        here=reason or "no answer",
        help="start it again, or leave --scheduler out: a sweep goes on where it stopped",
    )


@contextmanager
def _connected(client: Any, where: str) -> Iterator[None]:
    """Whatever Dask says when the connection breaks is one error."""
    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError

    try:
        yield
    except PillionError:
        raise
    except Exception as error:
        broken = isinstance(error, (CommClosedError, FutureCancelledError, TimeoutError, OSError))
        if broken or client.status != "running":
            raise went_away(where, type(error).__name__) from None
        raise


@contextmanager
def cluster(scheduler: str | None = None, workers: int | None = None) -> Iterator[Workers]:
    """Opens workers on this computer, one for each processor unless their number is given, or connects to a scheduler."""
    want_extra()
    _hush()
    with (
        _existing(scheduler)
        if scheduler
        else _local(os.cpu_count() or 1 if workers is None else workers) as found
    ):
        yield found


def _hush() -> None:
    """What Dask logs of workers that come and go is not for the user's screen: that they went is said in one message."""
    import distributed  # noqa: F401  # sets levels of its own

    for name in list(logging.root.manager.loggerDict):
        if name.startswith(("distributed", "tornado")):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


@contextmanager
def _existing(scheduler: str) -> Iterator[Workers]:
    from distributed import Client

    try:
        client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise PillionError(
            f"there is no scheduler at {scheduler}",
            rule="--scheduler is the address of a running Dask scheduler",
            here=str(error).splitlines()[0][:200] if str(error) else type(error).__name__,
            help="`dask scheduler` prints its address; without --scheduler, workers run on this computer",
        ) from None
    try:
        with _connected(client, scheduler):
            _wait_for_workers(client, scheduler)
        yield Workers(client, scheduler)
    finally:
        _close(client.close)


def _wait_for_workers(client: Any, scheduler: str) -> None:
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError:
        raise PillionError(
            f"the scheduler at {scheduler} has no workers",
            rule="at least one worker is there within a minute",
            here="0 workers",
            help=f"dask worker {scheduler} --nthreads 1",
        ) from None


@contextmanager
def _local(count: int) -> Iterator[Workers]:
    import dask
    from distributed import Client, LocalCluster

    if not 1 <= count <= MOST_WORKERS:
        raise PillionError(
            f"{count:,} workers are not possible",
            rule=f"1 to {MOST_WORKERS}",
            here=f"--workers {count}",
            help=f"--workers {os.cpu_count()}, one for each processor",
        )
    with _deaf(), dask.config.set(QUIET):
        machines = LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            worker_dashboard_address=None,
            silence_logs=logging.CRITICAL,
            preload=["pillion.sweep.deaf_worker"],
        )
    try:
        client = Client(machines, set_as_default=False)
        try:
            yield Workers(client, "this computer")
        finally:
            _close(lambda: client.close(timeout=2))
    finally:
        _close(lambda: machines.close(timeout=5))


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes that are started here do not hear of Ctrl-C: it is this one that stops them. For some seconds it is deaf itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


def _close(close: Callable[[], Any]) -> None:
    """Closes what may be closed already."""
    try:
        close()
    except Exception:
        logging.getLogger(__name__).debug("closing", exc_info=True)
