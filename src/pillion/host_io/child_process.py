# SPDX-License-Identifier: Apache-2.0
"""Child processes for code that may crash or hang: bytes over pipes, with time limits."""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from pillion.host_io.process_guard import Guard, start, stop_guarded

_ENDING_SECONDS = 1.0
"""Grace time for a child with a closed pipe before it is killed."""
_MOST_AT_ONCE = 1 << 20
MOST_SECONDS = (2**31 - 1) // 1000
"""Longest wait: poll takes milliseconds in 32 bits."""


class ChildEnded(Exception):
    """The error for a child that has ended or closed its pipes; it says how."""


class ChildTimeoutError(Exception):
    """The error for a child that did not respond in time."""


class Process(Protocol):
    """A process that may end."""

    @property
    def alive(self) -> bool:
        """Whether the process still accepts requests."""


_Process = TypeVar("_Process", bound=Process)


def restarting_process(start: Callable[[], _Process]) -> Callable[[], _Process]:
    """Returns a function that starts a process, returns the same at each call, and starts another after its end."""
    running: list[_Process] = []

    def current() -> _Process:
        if not running or not running[0].alive:
            running[:] = [start()]
        return running[0]

    return current


class Child:
    """A child process that reads standard input and answers on standard output; standard error is inherited. It
    leads its own process group: its children end with it, and it ends with this process, even if that is
    killed."""

    def __init__(
        self, command: Sequence[str], *, pass_fds: Sequence[int] = (), env: Mapping[str, str] | None = None
    ) -> None:
        self._process, guard = start(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=pass_fds, env=env
        )
        self._guard = guard
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._to, False)
        self.close = weakref.finalize(self, _kill_process, self._process, guard)
        """Kills the child and its group once; also called when the object is collected."""

    @property
    def alive(self) -> bool:
        """Whether the process still accepts requests, as far as is known."""
        return self.close.alive

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def fileno(self) -> int:
        """Returns the descriptor of its standard output, for `select`."""
        return self._from

    def send(self, data: bytes, seconds: float) -> None:
        """Writes all data, or raises after `seconds`, at most `MOST_SECONDS`."""
        self._exchange_bytes(data, 0, seconds, time.monotonic() + seconds)

    def receive(self, count: int, seconds: float) -> bytes:
        """Reads exactly `count` bytes, or raises after `seconds`."""
        return self._exchange_bytes(b"", count, seconds, time.monotonic() + seconds)

    def exchange(self, data: bytes, count: int, seconds: float) -> bytes:
        """Writes data while reading exactly `count` bytes. Raises if nothing moves for `seconds`."""
        return self._exchange_bytes(data, count, seconds, math.inf)

    def _exchange_bytes(self, data: bytes, count: int, seconds: float, deadline: float) -> bytes:
        if not self.alive:  # its descriptors may belong to other files by now
            raise ChildEnded("it has ended before")
        left, parts = memoryview(data), bytearray()
        while left or len(parts) < count:
            poll = select.poll()
            if left:
                poll.register(self._to, select.POLLOUT)
            if len(parts) < count:
                poll.register(self._from, select.POLLIN)
            ready = dict(poll.poll(max(min(seconds, deadline - time.monotonic()), 0) * 1000))
            if not ready:
                self.close()
                raise ChildTimeoutError
            if self._from in ready:
                part = os.read(self._from, min(count - len(parts), _MOST_AT_ONCE))
                if not part:
                    raise self._ended_error()
                parts += part
            if self._to in ready:
                left = left[self._write_to_pipe(left) :]
        return bytes(parts)

    def _write_to_pipe(self, left: memoryview) -> int:
        """Writes as much as the pipe accepts, possibly nothing."""
        try:
            return os.write(self._to, left[:_MOST_AT_ONCE])
        except BlockingIOError:
            time.sleep(0)
            return 0
        except BrokenPipeError:
            raise self._ended_error() from None

    def _ended_error(self) -> ChildEnded:
        self._guard.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_SECONDS)
        code = self._process.poll()
        self.close()
        return ChildEnded("it closed its pipes" if code is None else describe_exit_code(code))


def describe_exit_code(code: int) -> str:
    """Describes how a process ended, from its exit code."""
    if code >= 0:
        return f"exit code {code}"
    try:
        received = signal.Signals(-code)
    except ValueError:
        return f"killed by signal {-code}"
    return f"killed by {received.name} ({signal.strsignal(received)})"


def _kill_process(process: subprocess.Popen[bytes], guard: Guard) -> None:
    stop_guarded(process, guard)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
