# SPDX-License-Identifier: Apache-2.0
"""Runs jobs on an existing Dask cluster. Dask reschedules a job if its worker dies."""

from __future__ import annotations

import importlib.util
import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pillion.errors import PillionError, error_reason
from pillion.host_io.progress import print_above_bars
from pillion.sweep import job_worker
from pillion.sweep.job_result import JobOutput, killed_worker_output
from pillion.sweep.jobs import Job

CONNECT_SECONDS, WORKER_SECONDS = 10.0, 60.0
JOBS_PER_WORKER = 4
"""Queued jobs per worker; no worker idles while results are written."""

CERTIFICATES = "tls:// needs certificates in Dask's configuration (distributed.comm.tls)"
NO_TLS = (
    "warning: {} has no TLS: whoever reaches that port can run code there, and here through the results; "
    "use tls://host:port, with certificates in Dask's configuration (distributed.comm.tls)"
)


def require_extra(*packages: str) -> None:
    """Raises unless these packages of the extra `sweep` are installed."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise PillionError(
            "sweeps need packages that are not installed",
            rule="the extra `sweep` of Pillion brings them",
            here=f"no {', '.join(missing)}",
            help="pip install 'pillion[sweep]'",
        )


def require_no_workers(scheduler: str | None, workers: int | None) -> None:
    """Raises if both a cluster and a number of local workers are requested."""
    if scheduler is not None and workers is not None:
        raise PillionError(
            "--workers is for this computer",
            rule="a cluster that is there already has its workers",
            here=f"--scheduler {scheduler} --workers {workers}",
            help="leave one of them out",
        )


class ClusterWorkers:
    """The workers of a cluster. They take jobs, and return results as jobs finish."""

    def __init__(self, client: Any, where: str) -> None:
        from distributed import as_completed

        self._client, self._where = client, where
        self._waiting: dict[Any, Job] = {}
        self._finished = as_completed([], loop=client.loop)

    @property
    def count(self) -> int:
        """The current number of workers."""
        with _translate_connection_errors(self._client, self._where):
            return max(1, len(self._client.scheduler_info(n_workers=-1)["workers"]))

    @property
    def waiting(self) -> int:
        """The number of unfinished jobs."""
        return len(self._waiting)

    def submit(self, job: Job) -> None:
        """Submits a job."""
        name = f"{job.key}-{uuid.uuid4().hex[:8]}"
        with _translate_connection_errors(self._client, self._where):
            future = self._client.submit(job_worker.run_job, job, key=name, pure=False)
        self._waiting[future] = job
        self._finished.add(future)

    def finished(self) -> tuple[Job, JobOutput]:
        """Waits for the next job to finish, in any order."""
        future = next(self._finished)
        job = self._waiting.pop(future)
        with _translate_connection_errors(self._client, self._where):
            if future.status == "cancelled":
                raise cluster_lost_error(self._where, "its connection was lost")
            if future.status != "error":
                return job, future.result()
            error = future.exception()
        return job, _dead_worker_output(job, error)


def _dead_worker_output(job: Job, error: BaseException) -> JobOutput:
    """Returns the result for a job whose workers died. Other errors end the sweep."""
    if isinstance(error, PillionError):
        raise error
    if type(error).__name__ != "KilledWorker":
        raise PillionError(
            "a worker cannot do jobs of this sweep",
            rule="workers have Pillion and PyTorch, in the versions of the computer that starts the sweep",
            here=f"{type(error).__name__}: {error}"[:500],
            help="pip install 'pillion[sweep]' where the workers run, and start them anew",
        ) from error
    return killed_worker_output(job.model)


def cluster_lost_error(where: str, reason: str) -> PillionError:
    """Returns the error for a lost cluster."""
    return PillionError(
        f"the cluster at {where} went away",
        rule="the scheduler runs until the work is done",
        here=reason or "no answer",
        help="start it again, or leave --scheduler out: a sweep goes on where it stopped",
    )


@contextmanager
def _translate_connection_errors(client: Any, where: str) -> Iterator[None]:
    """Turns every connection error of Dask into one PillionError."""
    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError

    try:
        yield
    except PillionError:
        raise
    except Exception as error:
        broken = isinstance(error, (CommClosedError, FutureCancelledError, TimeoutError, OSError))
        if broken or client.status != "running":
            raise cluster_lost_error(where, type(error).__name__) from None
        raise


@contextmanager
def connect_cluster(scheduler: str) -> Iterator[ClusterWorkers]:
    """Connects to a scheduler. Warns if the connection has no TLS, because others could then command the workers."""
    require_extra("distributed")
    _silence_dask_logs()
    from distributed import Client

    if not scheduler.startswith("tls://"):
        print_above_bars(NO_TLS.format(scheduler))
    try:
        client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise PillionError(
            f"there is no scheduler at {scheduler}",
            rule="--scheduler is the address of a running Dask scheduler",
            here=error_reason(error)[:200],
            help="`dask scheduler` prints its address; without --scheduler, workers run on this computer"
            + (f"; {CERTIFICATES}" if scheduler.startswith("tls://") else ""),
        ) from None
    try:
        with _translate_connection_errors(client, scheduler):
            _wait_for_workers(client, scheduler)
        yield ClusterWorkers(client, scheduler)
    finally:
        _close_quietly(client.close)


def _silence_dask_logs() -> None:
    """Silences Dask's log messages about lost workers; one error reports the loss."""
    import distributed  # noqa: F401  # sets levels of its own

    for name in list(logging.root.manager.loggerDict):
        if name.startswith(("distributed", "tornado")):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


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


def _close_quietly(close: Callable[[], Any]) -> None:
    """Calls `close`, ignoring errors of objects that are closed already."""
    try:
        close()
    except Exception:
        logging.getLogger(__name__).debug("closing", exc_info=True)
