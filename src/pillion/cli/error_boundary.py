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
    was_interrupted = _watched_interrupts()
    try:
        _open_streams()
        with _flushed_output():
            yield
    except PillionError as error:
        _refused(error)
    except BrokenPipeError:
        _point_away(1, 2)
        sys.exit(BROKEN_PIPE)
    except KeyboardInterrupt:
        _interrupted()
    except MemoryError:
        _refused(_too_large())
    except OSError as error:
        if was_interrupted:
            _interrupted()
        _refused(_of_system(error))
    except Exception:
        if was_interrupted:  # an import that is cut off says what it likes
            _interrupted()
        raise


def _watched_interrupts() -> list[int]:
    """Records Ctrl-C, because imports turn it into other errors."""
    pressed: list[int] = []

    def note(number: int, frame: object) -> None:
        pressed.append(number)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, note)
    return pressed


def _open_streams() -> None:
    """Replaces closed standard streams, so that the next opened file does not take their number. Characters that
    an encoding lacks are replaced."""
    for number in STREAMS:
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115  # as long as the process
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115  # as long as the process
    codecs.register_error("pillion", _in_plain_marks)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="pillion")


def _in_plain_marks(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end]
    spelled = (PLAIN.get(mark) or mark.encode("ascii", "backslashreplace").decode() for mark in found)
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
        _point_away(1)  # what is left is not tried again at the end
        raise PillionError(
            "the answer cannot be written",
            rule="standard output takes what a command prints",
            here=f"{error.strerror}: standard output",
            help="make room where it goes to, or send it elsewhere",
        ) from None


def _point_away(*numbers: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in numbers:
        os.dup2(nowhere, number)


def _refused(error: PillionError) -> None:
    print(f"error: {error}", file=sys.stderr)
    sys.exit(MISTAKE)


def _interrupted() -> None:
    """Ends the process at once, without waiting for threads."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("interrupted", file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)


def _too_large() -> PillionError:
    return PillionError(
        "there is not enough memory",
        rule="a model, its calibration data and its activations fit the memory of this computer",
        here="an allocation that failed",
        help="smaller inputs, or fewer of them at once",
    )


def _of_system(error: OSError) -> PillionError:
    name = f"`{error.filename}`" if error.filename is not None else "a file"
    return PillionError(
        f"{name} cannot be used",
        rule="paths that the system takes, and files that you may read or write",
        here=error.strerror or str(error),
        help="look at the path, and at the room and the rights there",
    )
