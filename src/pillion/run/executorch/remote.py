# SPDX-License-Identifier: Apache-2.0
"""Runs the ExecuTorch runtime in a child process, which is restarted after it ends."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from pillion.errors import PillionError
from pillion.ir.types import Array
from pillion.run import process_messages
from pillion.run.executorch.wheel import build_plugin, find_wheel
from pillion.run.runtime_process import RuntimeMessages, RuntimeProcess, RuntimeRefusal

WORKER = "pillion.run.executorch.runtime_worker"
START_SECONDS = 300.0
"""The time limit for importing torch on a busy computer."""
TIMEOUT_SECONDS = 60.0


WORDS = RuntimeMessages(
    crashed="the ExecuTorch runtime crashed",
    crash_help="a file that Pillion has not written, or that was changed, can do that: compile the model again",
    late="the program did not finish in the ExecuTorch runtime",
    late_help=(
        "give more time (--timeout, timeout= in Python); a small model that takes this long does not end at all"
    ),
)


@cache
def _plugin_path() -> Path:
    return build_plugin(find_wheel())


_running: dict[Path, RuntimeProcess] = {}


def _runtime_process(plugin: Path) -> RuntimeProcess:
    process = _running.get(plugin)
    if process is None or not process.alive:
        process = RuntimeProcess(WORKER, str(plugin), words=WORDS, seconds=START_SECONDS)
        _running[plugin] = process
    return process


def run_executorch(
    program: bytes, inputs: Sequence[Array], *, timeout: float = TIMEOUT_SECONDS, goes_on: bool = False
) -> tuple[Array, ...]:
    """Returns the outputs of a `.pte` file's `forward` for one sample in the real ExecuTorch runtime. The
    program is loaded again, which resets its states, unless `goes_on`."""
    question = process_messages.write_message(program, inputs, seconds=timeout, goes_on=goes_on)
    try:
        return tuple(_runtime_process(_plugin_path()).ask(question, timeout)[1])
    except RuntimeRefusal as refused:
        parts = {part: refused.parts.get(part, "") for part in ("what", "rule", "here", "help")}
        raise PillionError(**parts) from None
