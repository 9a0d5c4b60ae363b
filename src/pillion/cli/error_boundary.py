# SPDX-License-Identifier: Apache-2.0
"""The end of every command: one message, and the exit code that shells expect."""

from __future__ import annotations

import codecs
import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pillion.errors import PillionError

MISTAKE, INTERRUPTED, BROKEN_PIPE = 2, 128 + signal.SIGINT, 141
"""Exit codes. A broken pipe is 128 + 13, as a shell reports SIGPIPE."""
STREAMS = (0, 1, 2)
PLAIN = {"–": "-", "…": "...", "×": "x", "·": ".", "→": "->", "≤": "<=", "≥": ">=", "█": "#"} | dict.fromkeys(
    "▏▎▍▌▋▊▉", ""
)
"""ASCII replacements for characters that the terminal's encoding lacks."""


@contextmanager
def errors_as_messages() -> Iterator[None]:
    """Ends the process with one message and the right exit code after an error."""
    was_interrupted = _record_interrupts()
    try:
        _replace_closed_streams()
        with _flushed_output():
            yield
    except PillionError as error:
        _exit_with_error(error)
    except BrokenPipeError:
        _redirect_stdout_to_null(1, 2)
        sys.exit(BROKEN_PIPE)
    except KeyboardInterrupt:
        _exit_on_interrupt()
    except MemoryError:
        _exit_with_error(_out_of_memory_error())
    except OSError as error:
        if was_interrupted:
            _exit_on_interrupt()
        _exit_with_error(_system_error(error))
    except Exception:
        if was_interrupted:  # an interrupted import may raise any error
            _exit_on_interrupt()
        raise


def _record_interrupts() -> list[int]:
    """Records Ctrl-C, because imports turn it into other errors."""
    pressed: list[int] = []

    def note(number: int, frame: object) -> None:
        pressed.append(number)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, note)
    return pressed


def _replace_closed_streams() -> None:
    """Replaces closed standard streams, so that the next opened file does not take their number. Characters that
    an encoding lacks are replaced."""
    for number in STREAMS:
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115  # as long as the process
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115  # as long as the process
    codecs.register_error("pillion", _replace_with_ascii)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="pillion")


def _replace_with_ascii(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unencodable = error.object[error.start : error.end]
    spelled = (PLAIN.get(mark) or mark.encode("ascii", "backslashreplace").decode() for mark in unencodable)
    return "".join(spelled), error.end


@contextmanager
def _flushed_output() -> Iterator[None]:
    """Flushes standard output while write errors can still be reported."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        _redirect_stdout_to_null(1)  # the rest is not written again at the end
        raise PillionError(
            "the answer cannot be written",
            rule="standard output takes what a command prints",
            here=f"{error.strerror}: standard output",
            help="make room where it goes to, or send it elsewhere",
        ) from None


def _redirect_stdout_to_null(*numbers: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in numbers:
        os.dup2(nowhere, number)


def _exit_with_error(error: PillionError) -> None:
    print(f"error: {error}", file=sys.stderr)
    sys.exit(MISTAKE)


def _exit_on_interrupt() -> None:
    """Ends the process at once, without waiting for threads."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("interrupted", file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)


def _out_of_memory_error() -> PillionError:
    return PillionError(
        "there is not enough memory",
        rule="a model, its calibration data and its activations fit the memory of this computer",
        here="an allocation that failed",
        help="smaller inputs, or fewer of them at once",
    )


def _system_error(error: OSError) -> PillionError:
    name = f"`{error.filename}`" if error.filename is not None else "a file"
    return PillionError(
        f"{name} cannot be used",
        rule="paths that the system takes, and files that you may read or write",
        here=error.strerror or str(error),
        help="look at the path, and at the room and the rights there",
    )
