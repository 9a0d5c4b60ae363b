# SPDX-License-Identifier: Apache-2.0
"""Ends child processes when this process ends, even if it is killed: the system then closes its pipes.

A shell waits for that, then kills the child's process group. It needs only POSIX, and works whatever the child
does with signals."""

from __future__ import annotations

import os
import signal
import subprocess
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_SHELL = ("/bin/sh", "-c", 'read -r group && { read -r nothing; kill -s KILL -- "-$group"; }')
"""The first line read is the group; the second never comes."""


class Guard:
    """Watches a process group and kills it when this process is gone."""

    def __init__(self) -> None:
        self._shell = subprocess.Popen(
            _SHELL,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        _guards.add(self)

    def watch(self, process: subprocess.Popen[bytes]) -> None:
        """Starts watching a process."""
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{process.pid}\n".encode())
        self._shell.stdin.flush()

    def close(self) -> None:
        """Ends the watch, before the process is reaped and its id may be reused."""
        self._shell.kill()
        self._shell.wait()
        self.close_pipe()

    def close_pipe(self) -> None:
        """Closes the pipe to the shell."""
        assert self._shell.stdin is not None
        with suppress(OSError):
            self._shell.stdin.close()


_guards: weakref.WeakSet[Guard] = weakref.WeakSet()


def _close_inherited_pipes() -> None:
    """Closes inherited pipes in a forked copy of this process, which does not own the children."""
    for guard in _guards:
        guard.close_pipe()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited_pipes)


def start(
    command: Sequence[str],
    *,
    pass_fds: Sequence[int] = (),
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: int | None = None,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
) -> tuple[subprocess.Popen[bytes], Guard]:
    """Starts a process in its own session, and a guard for it."""
    guard = Guard()
    try:
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            bufsize=0,
            pass_fds=pass_fds,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
    except BaseException:
        guard.close()
        raise
    guard.watch(process)
    return process, guard


def stop_guarded(process: subprocess.Popen[bytes], guard: Guard) -> None:
    """Kills a process that `start` started, and its children."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    guard.close()
    process.wait()


@contextmanager
def guarded_process(
    command: Sequence[str],
    *,
    cwd: Path,
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
    env: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a process that lives no longer than the block or this process."""
    process, guard = start(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)
    try:
        yield process
    finally:
        stop_guarded(process, guard)
        if process.stdout is not None:
            process.stdout.close()


def run_to_end(command: Sequence[str], folder: Path, seconds: float) -> tuple[int, bytes]:
    """Runs a guarded command without input. Returns its exit code and its output, errors included; raises
    `subprocess.TimeoutExpired` if it does not end in time."""
    with guarded_process(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        printed, _ = process.communicate(timeout=seconds)
    return process.returncode, printed
