# SPDX-License-Identifier: Apache-2.0
"""The runtime in a process of its own, which is started once and again after it has ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from pillion.errors import PillionError
from pillion.ir.types import Array
from pillion.outside.child import Child, ChildEnded, ChildLate
from pillion.run import messages
from pillion.run.executorch.wheel import build_plugin, find_wheel

WORKER = "pillion.run.executorch.worker"
START_SECONDS = 300.0
"""How long importing torch may take, on a computer that does other things too."""
TIMEOUT_SECONDS = 60.0


class Remote:
    """A process that runs programs, until it crashes or is late."""

    def __init__(self, plugin: Path) -> None:
        # The child finds the modules that this process finds, wherever it starts.
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
        command = [sys.executable, "-m", WORKER, str(plugin)]
        self.child = Child(command, env={**os.environ, "PYTHONPATH": path})
        self._exchange(b"", START_SECONDS)

    def run(
        self, program: bytes, inputs: Sequence[Array], timeout: float, goes_on: bool = False
    ) -> tuple[Array, ...]:
        """Runs one sample, and gives its outputs."""
        return self._exchange(messages.write(program, inputs, seconds=timeout, goes_on=goes_on), timeout)

    def _exchange(self, question: bytes, timeout: float) -> tuple[Array, ...]:
        """The arrays of the answer; whatever else comes is an error."""
        try:
            self.child.send(question, timeout)
            message, _, arrays = messages.read(lambda count: self.child.receive(count, timeout))
        except ChildEnded as ended:
            raise _crashed(str(ended)) from None
        except ChildLate:
            raise _late(timeout) from None
        except BaseException as error:  # what is left in the pipes would be taken for the next answer
            self.child.close()
            if isinstance(error, ValueError):
                raise _crashed(f"its answer makes no sense: {error}") from None
            raise
        if message.error is not None:
            raise PillionError(
                **{part: message.error.get(part, "") for part in ("what", "rule", "here", "help")}
            )
        return tuple(arrays)


def _crashed(how: str) -> PillionError:
    return PillionError(
        "the ExecuTorch runtime crashed",
        rule="it answers, or says why it does not run a program",
        here=how,
        help="a file that Pillion has not written, or that was changed, can do that: compile the model again",
    )


def _late(timeout: float) -> PillionError:
    return PillionError(
        "the program did not finish in the ExecuTorch runtime",
        rule=f"a run ends within {timeout:g} s",
        here="it was stopped",
        help="give more time (--timeout, timeout= in Python); a small model that takes this long does not end at all",
    )


@cache
def _plugin() -> Path:
    return build_plugin(find_wheel())


_running: dict[Path, Remote] = {}


def run_executorch(
    program: bytes, inputs: Sequence[Array], *, timeout: float = TIMEOUT_SECONDS, goes_on: bool = False
) -> tuple[Array, ...]:
    """Runs a `.pte` file's `forward` for one sample in the real ExecuTorch runtime, and gives its outputs. The program is loaded anew, by
    which its states are reset, unless it goes on from the run before."""
    plugin = _plugin()
    remote = _running.get(plugin)
    if remote is None or not remote.child.close.alive:
        remote = _running[plugin] = Remote(plugin)
    return remote.run(program, inputs, timeout, goes_on)
