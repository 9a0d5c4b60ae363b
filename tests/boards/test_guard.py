# SPDX-License-Identifier: Apache-2.0
"""No child outlives its parent, not even one that is killed while the child does what it likes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from small_firmware import ORDINARY_OPS, WriteFirmware, needs_board, needs_host

from pillion.host_io import process_guard
from pillion.host_io.child_process import Child, ChildEnded

SOURCE = str(Path(__file__).resolve().parents[2] / "src")
DEAF = (
    "extern int sigfillset(void *); extern int sigprocmask(int, const void *, void *); "
    "static long set[64]; (void)sigfillset(set); (void)sigprocmask(0, set, 0); for (;;) {}"
)
"""A model that hears no signal that it can be deaf to, and does not end."""


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.02)


def children_of(pid: int) -> list[int]:
    """The children of a process that have not ended."""
    with subprocess.Popen(["ps", "-A", "-o", "pid=,ppid=,stat="], stdout=subprocess.PIPE, text=True) as ps:
        rows = [line.split() for line in ps.communicate()[0].splitlines()]
    return [int(n) for n, of, state in rows if int(of) == pid and state[0] != "Z" and int(n) != ps.pid]


def is_alive(pid: int) -> bool:
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return bool(listed.stdout.strip()) and not listed.stdout.startswith("Z")


def killed(code: str, *arguments: object, children: int) -> list[int]:
    """Starts a Python that waits for children without end, kills it, and gives the numbers of those children."""
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    with subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], env=environment) as parent:
        wait_for(lambda: len(children_of(parent.pid)) >= children or parent.poll() is not None, 60)
        assert parent.poll() is None, "it has ended by itself"
        time.sleep(0.3)
        found = children_of(parent.pid)
        parent.kill()
    return found


def all_end(processes: list[int]) -> None:
    try:
        wait_for(lambda: not any(map(is_alive, processes)))
    finally:
        for pid in filter(is_alive, processes):
            os.kill(pid, signal.SIGKILL)


ON_HOST = """
import pathlib, sys
from pillion.boards.host import HostModel
HostModel(pathlib.Path(sys.argv[1]), timeout=600).run([bytes(13)])
"""
ON_BOARD = """
import pathlib, sys
from pillion.boards import qemu
from pillion.boards.board import BOARDS
qemu.run_samples(pathlib.Path(sys.argv[1]), BOARDS["mps3-an547"], bytes(13), timeout=600)
"""
DEAF_SHELL = ["/bin/sh", "-c", "trap '' TERM HUP INT ALRM; while :; do :; done"]
IN_A_THREAD = f"""
import threading, time
from pillion.host_io.child_process import Child
kept = []
thread = threading.Thread(target=lambda: kept.append(Child({DEAF_SHELL!r})))
thread.start(); thread.join(); time.sleep(600)
"""
WITH_A_COPY = f"""
import os, sys, time
from pillion.host_io.child_process import Child
child = Child({DEAF_SHELL!r})
if os.fork() == 0:
    time.sleep(20)
    os._exit(0)
time.sleep(600)
"""


@needs_host
def test_a_model_that_hears_nothing_ends_with_its_parent(write_firmware: WriteFirmware) -> None:
    firmware = write_firmware({"add": ORDINARY_OPS["add"], "deaf": f"{{ {DEAF} }}"})
    all_end(killed(ON_HOST, firmware, children=2))


@pytest.mark.qemu
@needs_board
def test_the_emulator_ends_with_its_parent(write_firmware: WriteFirmware) -> None:
    firmware = write_firmware({"add": ORDINARY_OPS["add"], "turns": "for (;;) {}"})
    all_end(killed(ON_BOARD, firmware, children=2))


def test_the_end_of_a_thread_is_not_the_end_of_its_child() -> None:
    """The system's own way on Linux (PR_SET_PDEATHSIG) mistakes one for the other."""
    all_end(killed(IN_A_THREAD, children=2))


def test_a_copy_of_the_parent_does_not_keep_its_children() -> None:
    found = killed(WITH_A_COPY, children=3)
    copies = [pid for pid in found if "python" in command_of(pid)]
    all_end([pid for pid in found if pid not in copies])
    for pid in copies:
        os.kill(pid, signal.SIGKILL)


def command_of(pid: int) -> str:
    listed = subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True)
    return listed.stdout


def test_closing_a_child_ends_its_processes() -> None:
    before = set(children_of(os.getpid()))
    child = Child(["cat"])
    child.send(b"there and back", 10)
    assert child.receive(14, 10) == b"there and back"
    assert len(set(children_of(os.getpid())) - before) == 2
    child.close()
    assert set(children_of(os.getpid())) <= before


def test_a_child_that_ends_leaves_no_process() -> None:
    before = set(children_of(os.getpid()))
    with pytest.raises(ChildEnded, match="exit code 3"):
        Child(["sh", "-c", "exit 3"]).receive(1, 10)
    assert set(children_of(os.getpid())) <= before


def test_a_missing_program_leaves_no_process(tmp_path: Path) -> None:
    before = set(children_of(os.getpid()))
    with pytest.raises(FileNotFoundError):
        process_guard.start([str(tmp_path / "gone")])
    assert set(children_of(os.getpid())) <= before
