# SPDX-License-Identifier: Apache-2.0
"""Code that may crash or never end runs in a child process: bytes go there and back through pipes, each within a time limit."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress

_ENDING_SECONDS = 1.0
"""A child whose pipe is closed is about to end; how long that may take before it is ended."""
_MOST_AT_ONCE = 1 << 20
MOST_SECONDS = (2**31 - 1) // 1000
"""The system waits for milliseconds in 32 bits."""


class ChildEnded(Exception):
    """The error of a child process that is no more, or will not talk; it says how the process ended."""


class ChildLate(Exception):
    """The error of a child process that did not answer within its time."""


class Child:
    """A process that reads from its standard input and answers on its standard output. What it prints as errors goes where
    ours go. It is the first of a group of its own: with it ends all that it has started."""

    def __init__(
        self, command: Sequence[str], *, pass_fds: Sequence[int] = (), env: Mapping[str, str] | None = None
    ) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            pass_fds=pass_fds,
            env=env,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._to, False)
        self.close = weakref.finalize(self, _end, self._process)
        """Ends the process and its group, if that has not happened. Called when nobody holds the child any more."""

    def send(self, data: bytes, seconds: float) -> None:
        """Writes all of the data, or raises after some seconds: `MOST_SECONDS` at most."""
        deadline, left = time.monotonic() + seconds, memoryview(data)
        while left:
            self._wait(self._to, select.POLLOUT, deadline)
            left = left[self._write(left) :]

    def receive(self, count: int, seconds: float) -> bytes:
        """Reads exactly so many bytes, or raises after some seconds."""
        deadline, parts, left = time.monotonic() + seconds, [], count
        while left:
            self._wait(self._from, select.POLLIN, deadline)
            part = os.read(self._from, min(left, _MOST_AT_ONCE))
            if not part:
                raise self._ended()
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def exchange(self, data: bytes, count: int, seconds: float) -> bytes:
        """Writes data while exactly so many bytes of answers are read, which come meanwhile; raises where nothing moves for some seconds."""
        left, parts, missing = memoryview(data), bytearray(), count
        poll = self._poll(self._from, select.POLLIN)
        poll.register(self._to, select.POLLOUT)
        while left or missing:
            ready = dict(poll.poll(seconds * 1000))
            if not ready:
                self.close()
                raise ChildLate
            if self._from in ready and missing:
                part = os.read(self._from, min(missing, _MOST_AT_ONCE))
                if not part:
                    raise self._ended()
                parts += part
                missing -= len(part)
            if self._to in ready:
                left = left[self._write(left) :]
                if not left:
                    poll.unregister(self._to)
        return bytes(parts)

    def _write(self, left: memoryview) -> int:
        """As much as there is room for: there may be some, but less than the system writes at once."""
        try:
            return os.write(self._to, left[:_MOST_AT_ONCE])
        except BlockingIOError:
            time.sleep(0)
            return 0
        except BrokenPipeError:
            raise self._ended() from None

    def _poll(self, descriptor: int, event: int) -> select.poll:
        if not self.close.alive:  # its descriptors may belong to other files by now
            raise ChildEnded("it has ended before")
        poll = select.poll()
        poll.register(descriptor, event)
        return poll

    def _wait(self, descriptor: int, event: int, deadline: float) -> None:
        """Until the pipe is ready, or closed on the other side."""
        poll = self._poll(descriptor, event)
        if not poll.poll(max(deadline - time.monotonic(), 0) * 1000):
            self.close()
            raise ChildLate

    def _ended(self) -> ChildEnded:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_SECONDS)
        found = self._process.poll()
        self.close()
        return ChildEnded("it closed its pipes" if found is None else ending(found))


def ending(code: int) -> str:
    """Says in words how a process ended, by what Python says of it."""
    if code >= 0:
        return f"exit code {code}"
    try:
        found = signal.Signals(-code)
    except ValueError:
        return f"killed by signal {-code}"
    return f"killed by {found.name} ({signal.strsignal(found)})"


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a process that was started in a session of its own, and what it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _end(process: subprocess.Popen[bytes]) -> None:
    stop(process)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
