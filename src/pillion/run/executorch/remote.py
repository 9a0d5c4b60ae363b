# SPDX-License-Identifier: Apache-2.0
"""Runs the ExecuTorch runtime in a child process, which is restarted after it ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pillion.host_io.child_process import restarting_process
from pillion.ir.types import Array
from pillion.run.executorch.wheel import build_plugin, find_wheel
from pillion.run.runtime_process import RuntimeMessages, RuntimeProcess

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


def _start_runtime() -> RuntimeProcess:
    return RuntimeProcess(WORKER, str(build_plugin(find_wheel())), words=WORDS, seconds=START_SECONDS)


_runtime_process = restarting_process(_start_runtime)


def run_executorch(
    program: bytes, inputs: Sequence[Array], *, timeout: float = TIMEOUT_SECONDS, goes_on: bool = False
) -> tuple[Array, ...]:
    """Returns the outputs of a `.pte` file's `forward` for one sample in the real ExecuTorch runtime. The
    program is loaded again, which resets its states, unless `goes_on`."""
    arrays = [np.frombuffer(program, np.uint8), *inputs]
    return tuple(_runtime_process().ask(arrays, timeout, goes_on=goes_on)[1])
