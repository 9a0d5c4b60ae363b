# SPDX-License-Identifier: Apache-2.0
"""Progress of long work: bars per stage on standard error, if that is a terminal.

Work announces stages with `stage`; `shown` decides for a block whether they are displayed. Short stages are
never displayed, to avoid flicker."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO, TypeVar

from typing_extensions import ParamSpec

from pillion.errors import escape_controls

_P = ParamSpec("_P")
_R = TypeVar("_R")

PATIENCE_SECONDS = 0.4
"""Delay before anything is displayed."""

Advance = Callable[[int, "int | None"], None]
"""Called with the amount done, and the total if known."""


class Display:
    """The bars of running stages, one per line, shown after a delay."""

    def __init__(self, file: TextIO, patience: float = PATIENCE_SECONDS) -> None:
        from rich import progress
        from rich.console import Console

        self._bars = progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.TextColumn("{task.fields[count]}", markup=False),
            progress.TimeElapsedColumn(),
            console=Console(file=file),  # the one of now: standard error may be redirected later
            transient=True,
            redirect_stdout=False,  # redirections by others in the meantime would be undone incorrectly
            redirect_stderr=False,
        )
        self._file = file
        self._is_shown = self._is_closed = False
        self._lock = threading.RLock()
        self._timer = threading.Timer(patience, self._show_stages)
        self._timer.daemon = True
        self._timer.start()

    @contextmanager
    def stage(self, words: str, total: int | None) -> Iterator[Advance]:
        """Shows a line during a block, and yields the function that moves its bar."""
        task = self._bars.add_task(words, total=total, count=f"0/{total}" if total else "")

        def advance(done: int, of: int | None) -> None:
            nonlocal total
            total = total if of is None else of
            count = f"{done}/{total}" if total else f"{done}" if done else ""
            self._bars.update(task, completed=done, total=total, count=count)

        try:
            yield advance
        finally:
            self._bars.remove_task(task)

    def say(self, text: str) -> None:
        """Prints a line above the bars."""
        with self._lock:
            if self._is_shown:
                self._bars.console.print(text, markup=False, highlight=False, soft_wrap=True)
            else:
                print(text, file=self._file)

    def close(self) -> None:
        """Restores the terminal."""
        self._timer.cancel()
        with self._lock:
            self._is_closed = True
            self._bars.stop()

    def _show_stages(self) -> None:
        """Draws the current stages, in the timer's thread."""
        with self._lock:
            if not self._is_closed:
                self._is_shown = True
                self._bars.start()


_display: ContextVar[Display | None] = ContextVar("display", default=None)
_is_decided: ContextVar[bool] = ContextVar("is_decided", default=False)
_screen = threading.Lock()
"""Held by the displayed display; stages of other threads are not displayed."""


@contextmanager
def show_progress(wanted: bool | None = None) -> Iterator[None]:
    """Decides for a block whether its stages are displayed. None means if standard error is a terminal. An outer
    block's decision has precedence."""
    if _is_decided.get() and wanted is not False:
        yield
        return
    is_visible = wanted is not False and _is_terminal() and _screen.acquire(blocking=False)
    display = Display(sys.stderr) if is_visible else None
    tokens = _display.set(display), _is_decided.set(True)
    try:
        yield
    finally:
        _display.reset(tokens[0])
        _is_decided.reset(tokens[1])
        if display is not None:
            display.close()
            _screen.release()


def showing_progress(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Lets a function display its stages unless its argument `progress` is False or a function."""

    @functools.wraps(function)
    def showing(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        requested = kwargs.get("progress")
        with show_progress(
            requested if isinstance(requested, bool) else False if callable(requested) else None
        ):
            return function(*args, **kwargs)

    return showing


def _is_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # it is closed
        return False


@contextmanager
def stage(words: str, total: int | None = None) -> Iterator[Advance]:
    """Announces a stage for a block, and yields the function that moves its bar."""
    display = _display.get()
    if display is None:
        yield lambda done, of: None
        return
    with display.stage(words, total) as advance:
        yield advance


def print_above_bars(text: str) -> None:
    """Prints a line on standard error, above any bars."""
    text, display = escape_controls(text), _display.get()
    if display is None:
        print(text, file=sys.stderr)
    else:
        display.say(text)
