# SPDX-License-Identifier: Apache-2.0
"""What long work tells whoever waits for it: its stages, as bars on standard error where that is a terminal, and else nothing.

Work says what it does with `stage`, wherever it is; `shown` says for a block whether anybody sees it. What ends soon is never shown:
a bar that flickers for each of a thousand runs helps nobody."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TextIO, TypeVar

from typing_extensions import ParamSpec

_P = ParamSpec("_P")
_R = TypeVar("_R")

PATIENCE_SECONDS = 0.4
"""How long nothing is shown."""

Advance = Callable[[int, "int | None"], None]
"""Called with how much of a stage is done, and how much there is, where that is known."""


@dataclass(eq=False)
class Stage:
    """One line of a display."""

    words: str
    done: int = 0
    total: int | None = None
    task: Any = None
    """What rich calls it, once it is shown."""

    @property
    def looks(self) -> dict[str, Any]:
        """What of it is shown."""
        count = f"{self.done}/{self.total}" if self.total else f"{self.done}" if self.done else ""
        return {"completed": self.done, "total": self.total, "count": count}


class Display:
    """The bars of stages that have not ended, one below the other. They come when the first stage has lasted a while."""

    def __init__(self, file: TextIO, patience: float = PATIENCE_SECONDS) -> None:
        self._file = file  # the one of now: standard error may be redirected later
        self._stages: list[Stage] = []
        self._bars: Any = None
        self._is_closed = False
        self._lock = threading.RLock()
        self._timer = threading.Timer(patience, self._show)
        self._timer.daemon = True
        self._timer.start()

    def begin(self, stage: Stage) -> None:
        """Adds a line."""
        with self._lock:
            self._stages.append(stage)
            if self._bars is not None:
                stage.task = self._bars.add_task(stage.words, **stage.looks)

    def advance(self, stage: Stage, done: int, total: int | None) -> None:
        """Moves the bar of a line."""
        with self._lock:
            stage.done, stage.total = done, stage.total if total is None else total
            if self._bars is not None:
                self._bars.update(stage.task, **stage.looks)

    def end(self, stage: Stage) -> None:
        """Takes a line away."""
        with self._lock:
            self._stages.remove(stage)
            if self._bars is not None:
                self._bars.remove_task(stage.task)

    def say(self, text: str) -> None:
        """Prints a line above the bars."""
        with self._lock:
            if self._bars is None:
                print(text, file=self._file)
            else:
                self._bars.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Leaves the terminal as it was."""
        self._timer.cancel()
        with self._lock:
            self._is_closed = True
            if self._bars is not None:
                self._bars.stop()

    def _show(self) -> None:
        """Draws what there is by now, in the thread of the timer."""
        from rich import progress
        from rich.console import Console

        with self._lock:
            if self._is_closed:
                return
            self._bars = progress.Progress(
                progress.TextColumn("{task.description}", markup=False),
                progress.BarColumn(),
                progress.TextColumn("{task.fields[count]}", markup=False),
                progress.TimeElapsedColumn(),
                console=Console(file=self._file),
                transient=True,
                redirect_stdout=False,  # what others redirect meanwhile would be put back wrongly
                redirect_stderr=False,
            )
            for stage in self._stages:
                stage.task = self._bars.add_task(stage.words, **stage.looks)
            self._bars.start()


_display: ContextVar[Display | None] = ContextVar("display", default=None)
_is_decided: ContextVar[bool] = ContextVar("is_decided", default=False)
_screen = threading.Lock()
"""Held by the one display that is shown: what other threads do at the same time is not."""


@contextmanager
def shown(wanted: bool | None = None) -> Iterator[None]:
    """Decides for a block whether its stages are shown: `None` means where standard error is a terminal, and what a block around this one
    has decided holds."""
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
    """Lets a function show its stages, as its argument `progress` says: False, or a function that shows them itself, means no."""

    @functools.wraps(function)
    def showing(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        asked = kwargs.get("progress")
        with shown(asked if isinstance(asked, bool) else False if callable(asked) else None):
            return function(*args, **kwargs)

    return showing


def _is_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # it is closed
        return False


@contextmanager
def stage(words: str, total: int | None = None) -> Iterator[Advance]:
    """Says what a block does, and gives what moves its bar."""
    display = _display.get()
    if display is None:
        yield lambda done, of: None
        return
    one = Stage(words, 0, total)
    display.begin(one)
    try:
        yield lambda done, of: display.advance(one, done, of)
    finally:
        display.end(one)


def say(text: str) -> None:
    """Prints a line on standard error, above the bars if there are some."""
    display = _display.get()
    if display is None:
        print(text, file=sys.stderr)
    else:
        display.say(text)
