# SPDX-License-Identifier: Apache-2.0
"""Long work shows its stages on a terminal, in Python as on the command line; elsewhere not a byte."""

from __future__ import annotations

import io
import os
import pty
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from pathlib import Path

import pytest

from pillion.cli import console
from pillion.host_io import progress
from pillion.host_io.progress import print_above_bars, show_progress, showing_progress, stage

SOURCE = str(Path(__file__).resolve().parents[2] / "src")


class Terminal(io.StringIO):
    """Standard error that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def a_terminal(monkeypatch: pytest.MonkeyPatch, patience: float = 0.0) -> Terminal:
    """Not a fixture: pytest exchanges standard error between those and the test."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress.Display.__init__, "__defaults__", (patience,))
    return screen


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_stages_are_shown_until_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    with show_progress():
        with stage("calibrating", 7) as advance:
            advance(3, None)
            wait_for(lambda: "calibrating" in terminal.getvalue() and "3/7" in terminal.getvalue())
            with stage("[red]a name of a user[/red]"):
                wait_for(lambda: "[red]a name of a user[/red]" in terminal.getvalue())
            advance(4, 9)
            wait_for(lambda: "4/9" in terminal.getvalue())
        print_above_bars("warning: above [bold]the[/bold] bars")
        assert "warning: above [bold]the[/bold] bars" in terminal.getvalue()
    assert terminal.getvalue().rindex("\x1b[?25h") > terminal.getvalue().rindex("\x1b[?25l"), (
        "the cursor is back"
    )
    seen = terminal.getvalue()
    time.sleep(0.15)
    assert terminal.getvalue() == seen


def test_short_stages_show_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch, 0.2)
    threads = threading.active_count()
    for _ in range(50):
        with show_progress(), stage("running on host"):
            pass
    wait_for(lambda: threading.active_count() <= threads)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("wanted", [None, True])
def test_no_progress_bar_without_a_terminal(wanted: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    with show_progress(wanted), stage("calibrating", 3) as advance:
        advance(1, 3)
    assert screen.getvalue() == ""
    print_above_bars("warning: one line")
    assert screen.getvalue() == "warning: one line\n"


@pytest.mark.parametrize("stream", [None, "closed"])
def test_a_process_without_standard_error_works(stream: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed if stream else None)
    with show_progress(), stage("calibrating") as advance:
        advance(1, None)


def test_threads_do_not_share_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)

    def other() -> None:
        with show_progress(), stage("of another thread"):
            time.sleep(0.1)

    with show_progress(), stage("calibrating"):
        wait_for(lambda: "calibrating" in terminal.getvalue())
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert "of another thread" not in terminal.getvalue()
    with show_progress(), stage("again"):
        wait_for(lambda: "again" in terminal.getvalue())


def test_no_means_no_also_further_in(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    with show_progress(False), show_progress(), show_progress(True), stage("calibrating"):
        time.sleep(0.05)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(("asked", "is_shown"), [(None, True), (True, True), (False, False), (print, False)])
def test_an_argument_says_whether(asked: object, is_shown: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)

    @showing_progress
    def work(progress: object = None) -> int:
        with stage("capturing"):
            if is_shown:
                wait_for(lambda: "capturing" in terminal.getvalue())
            return 3

    assert work(progress=asked) == 3
    assert ("capturing" in terminal.getvalue()) == is_shown


def test_an_error_leaves_the_terminal_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)

    def fail() -> None:
        with show_progress(), stage("measuring"):
            wait_for(lambda: "measuring" in terminal.getvalue())
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert "\x1b[?25h" in terminal.getvalue()[-40:]


def test_redirections_meanwhile_are_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    kept = io.StringIO()
    with show_progress(), stage("capturing"):
        with redirect_stderr(kept):
            wait_for(lambda: "capturing" in terminal.getvalue())
        assert sys.stderr is terminal
    assert sys.stderr is terminal
    assert kept.getvalue() == ""


IN_PYTHON = """
import time, warnings
import torch
import pillion

def samples():
    for _ in range(4):
        time.sleep(0.3)
        yield torch.randn(1, 3)

program = pillion.compile(torch.nn.Linear(3, 2), (torch.randn(1, 3),), target="cortex-m33", calibrate={calibrate}, **{options})
print(program.run(torch.ones(1, 3).numpy())[0].shape)
"""


def on_a_terminal(command: list[str], folder: Path) -> tuple[str, str]:
    """Standard output, and what a terminal shows of standard error."""
    master, slave = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": SOURCE, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=slave, text=True
    ) as process:
        os.close(slave)
        screen = b"".join(_read(master))
        out = process.communicate()[0]
    os.close(master)
    assert process.returncode == 0, screen.decode()
    return out, screen.decode()


def _read(master: int) -> Iterator[bytes]:
    while select.select([master], [], [], 120)[0]:
        try:
            part = os.read(master, 1 << 16)
        except OSError:  # the other side is closed
            return
        if not part:
            return
        yield part


@pytest.mark.turns(15)
@pytest.mark.torch
@pytest.mark.parametrize("options", [{}, pytest.param({"progress": False}, marks=pytest.mark.slow)])
def test_python_and_the_command_line_show_the_same(options: dict[str, object], tmp_path: Path) -> None:
    code = IN_PYTHON.format(calibrate="samples()", options=options)
    out, screen = on_a_terminal([sys.executable, "-c", code], tmp_path)
    assert out == "(1, 2)\n"
    assert ("calibrating" in screen) == (not options)
    assert ("importing PyTorch" in screen) == (not options)
    assert not options or screen == ""


@pytest.mark.turns(8)
@pytest.mark.torch
@pytest.mark.parametrize("more", [pytest.param([], marks=pytest.mark.slow), ["--json"]])
def test_the_command_line_shows_it_too(more: list[str], tmp_path: Path) -> None:
    command = ["compile", "-m", "linear_bn", "-t", "cortex-m33", "-q", "-o", "out", *more]
    out, screen = on_a_terminal([sys.executable, "-m", "pillion", *command], tmp_path)
    assert "arena" in out
    assert ("importing PyTorch" in screen) == (not more)
    assert "warning: no --calibrate" in screen


def test_commands_name_work_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    with console.progress_bar(quiet=False, what="evaluating") as advance:
        assert advance is not None
        advance(2, 5)
        wait_for(lambda: "evaluating" in terminal.getvalue() and "2/5" in terminal.getvalue())
    seen = terminal.getvalue()
    with (
        console.progress_bar(quiet=True, what="evaluating") as advance,
        console.progress_bar(quiet=False) as nothing,
    ):
        assert advance is not None
        assert nothing is None
        advance(1, 5)
        time.sleep(0.05)
    assert terminal.getvalue() == seen
