# SPDX-License-Identifier: Apache-2.0
"""Real workers, on this computer and of Dask: they are killed, interrupted, and lose their scheduler."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import dask
import pytest
from small_sweeps import FAST, INT8, Here, int8_file, plan_of

from pillion.errors import PillionError
from pillion.sweep.cluster import connect_cluster
from pillion.sweep.local_workers import LocalWorkers, local_workers
from pillion.sweep.runner import Progress, Runner, SweepRow, run_all
from pillion.sweep.store import open_store
from pillion.sweep.sweep_file import SweepFile
from pillion.sweep.variants import all_jobs

HELP = "the same command goes on from there"
SCHEDULER = re.compile(rb"Scheduler at:\s+(t(?:cp|ls)://\S+)")


@pytest.fixture
def plan(tmp_path: Path) -> SweepFile:
    int8_file(tmp_path)
    return plan_of(tmp_path, INT8 + FAST)


def files_of(folder: Path) -> dict[str, bytes]:
    """What a sweep has written, but for how long each job took."""
    found = {
        str(path.relative_to(folder)): path for path in folder.glob("jobs/*/*") if path.suffix != ".json"
    }
    return {name: path.read_bytes() for name, path in found.items()}


@pytest.mark.turns(6)
def test_a_killed_worker_loses_no_results(plan: SweepFile, tmp_path: Path) -> None:
    jobs = all_jobs(plan)
    ended: list[set[int]] = []
    with local_workers(2) as workers, open_store(tmp_path / "out") as store:
        there = Progress()

        def kill_one(now: Progress) -> None:
            if now.done == 5 and not ended:
                ended.append(workers.pids)
                os.kill(min(ended[0]), signal.SIGKILL)

        there.changed = kill_one

        @contextmanager
        def these() -> Iterator[LocalWorkers]:
            yield workers

        with Runner(store, these, there) as runner:
            rows = run_all(jobs, runner)
        assert min(ended[0]) not in workers.pids
    assert len(rows) == there.done == 36
    assert [row.result.failure for row in rows] == [None] * 36
    here = Here()
    with open_store(tmp_path / "here") as store, Runner(store, here.opened, Progress()) as runner:  # type: ignore[arg-type]  # workers that are here
        alone = run_all(jobs, runner)
    assert [figures(row) for row in rows] == [figures(row) for row in alone]
    assert files_of(tmp_path / "out") == files_of(tmp_path / "here")


def figures(row: SweepRow) -> object:
    return row.job.key, row.result.figures


@pytest.mark.turns(8)
def test_a_job_that_kills_its_workers_is_a_failure_that_is_tried_again(tmp_path: Path) -> None:
    net = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    text = '[[model]]\nsource = "net.py:Net"\n[options]\ntarget = "cortex-m33"\n'
    jobs = all_jobs(plan_of(tmp_path, text + FAST, net))
    with (
        open_store(tmp_path / "out") as store,
        Runner(store, lambda: local_workers(1), Progress()) as runner,
    ):
        (row,) = run_all(jobs, runner)
        assert row.result.failure is not None
        assert "ended its worker" in row.result.failure.what
        assert not row.result.failure.is_lasting


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "pillion", *map(str, arguments)]


@pytest.mark.nightly
def test_ctrl_c_stops_cleanly_and_the_same_command_goes_on(plan: SweepFile, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sweep = command("sweep", plan.path, "-o", out, "--workers", 2)
    process = subprocess.Popen(
        sweep, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 300
    while len(list(out.glob("jobs/*/result.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the workers hear it, too
    said, complained = process.communicate(timeout=300)
    assert process.returncode == 130
    assert said == ""
    assert HELP in complained
    assert "Traceback" not in complained
    assert "rror" not in complained
    kept = {path: path.stat().st_mtime_ns for path in out.glob("jobs/*/result.json")}
    assert f"{len(kept)} of 36" in complained
    assert 3 <= len(kept) < 36
    done = subprocess.run(sweep, capture_output=True, text=True, check=True)
    assert "36 variants, 0 failed" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert len(list(out.glob("jobs/*/result.json"))) == 36


def sockets(pid: int) -> set[str]:
    """The sockets that a process has open. It may close files while they are listed."""
    names = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            names.add(os.readlink(fd))
    return {name for name in names if name.startswith("socket:")}


@pytest.mark.turns(2)
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="looks into Linux's /proc")
def test_local_workers_open_no_network_sockets(plan: SweepFile, tmp_path: Path) -> None:
    before, threads = sockets(os.getpid()), threading.active_count()
    with local_workers(2) as workers:
        for job in all_jobs(plan)[:2]:
            workers.submit(job)
        assert workers.finished()[1].result.failure is None
        assert [sockets(pid) for pid in workers.pids] == [set(), set()]
        assert sockets(os.getpid()) == before
        assert threading.active_count() == threads


@contextmanager
def scheduler(
    workers: int, security: Sequence[str] = ()
) -> Iterator[tuple[str, subprocess.Popen[bytes], list[subprocess.Popen[bytes]]]]:
    """A cluster as somebody else would have started it."""
    dask_scheduler = [
        sys.executable,
        "-m",
        "distributed.cli.dask_scheduler",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        *security,
    ]
    head = subprocess.Popen([*dask_scheduler, "--no-dashboard"], stderr=subprocess.PIPE)
    started = [head]
    try:
        assert head.stderr is not None
        address = next(found[1].decode() for line in head.stderr if (found := SCHEDULER.search(line)))
        dask_worker = [
            sys.executable,
            "-m",
            "distributed.cli.dask_worker",
            address,
            "--nthreads",
            "1",
            *security,
        ]
        hands = [
            subprocess.Popen([*dask_worker, "--no-nanny", "--no-dashboard"], stderr=subprocess.DEVNULL)
            for _ in range(workers)
        ]
        started += hands
        yield address, head, hands
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.nightly
def test_a_cluster_that_is_there_serves_a_sweep_until_it_goes_away(plan: SweepFile, tmp_path: Path) -> None:
    with scheduler(workers=2) as (address, head, hands):
        hands[0].kill()
        sweep = command("sweep", plan.path, "-o", tmp_path / "out", "--scheduler", address)
        process = subprocess.Popen(sweep, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 300
        while not list(tmp_path.glob("out/jobs/*/result.json")) and time.monotonic() < deadline:
            time.sleep(0.01)
        head.kill()
        said, complained = process.communicate(timeout=300)
        assert process.returncode == 2
        assert said == ""
        assert f"error: the cluster at {address} went away" in complained
        assert "a sweep goes on where it stopped" in complained
        assert "Traceback" not in complained
        assert complained.count("\n") < 8
        assert f"warning: {address} has no TLS" in complained
    kept = len(list(tmp_path.glob("out/jobs/*/result.json")))
    assert 0 < kept < 36


@pytest.mark.skipif(not shutil.which("openssl"), reason="makes a certificate")
@pytest.mark.nightly
def test_a_cluster_with_tls_is_taken_without_a_warning(
    plan: SweepFile, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=test",
        "-keyout",
    ]
    subprocess.run([*make, key, "-out", cert], check=True, capture_output=True)
    options = ["--tls-ca-file", cert, "--tls-cert", cert, "--tls-key", key]
    settings = {"ca-file": cert, "client.cert": cert, "client.key": key}
    tls = {f"distributed.comm.tls.{name}": value for name, value in settings.items()}
    import distributed  # noqa: F401  # brings the settings that these stand beside

    with scheduler(1, options) as (address, *_), dask.config.set(tls):
        with connect_cluster(address) as workers:
            job = all_jobs(plan)[0]
            workers.submit(job)
            assert workers.finished()[1].result.failure is None
        with pytest.raises(PillionError, match="there is no scheduler"), connect_cluster("tcp" + address[3:]):
            pass
    assert capfd.readouterr().err.count("has no TLS") == 1


def test_a_missing_scheduler_is_refused(
    plan: SweepFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pillion.sweep.cluster.CONNECT_SECONDS", 0.3)
    for address in ("tcp://127.0.0.1:9", "nowhere", "http://x", "tcp://127.0.0.1:99999"):
        with pytest.raises(PillionError, match="there is no scheduler at"), connect_cluster(address):
            pass


def test_a_tls_address_without_certificates_says_where_they_go() -> None:
    with pytest.raises(PillionError) as refused, connect_cluster("tls://127.0.0.1:9"):
        pass
    assert "distributed.comm.tls" in refused.value.help


@pytest.mark.parametrize("count", [0, -1, 100_000])
def test_numbers_of_workers(count: int) -> None:
    with pytest.raises(PillionError, match="processes are not possible"), local_workers(count):
        pass
