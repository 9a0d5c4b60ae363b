# SPDX-License-Identifier: Apache-2.0
"""The child process that runs Vela. It runs as a file and imports nothing from Pillion. It
answers once when Vela is loaded. Each request is a line of JSON with a folder and options; output and results
go to that folder, and the answer is a line with the exit code."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import TextIO


def main() -> None:
    """Answers requests until its input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from ethosu.vela.vela import main as vela

    _send_exit_code(answers, 0)
    for line in sys.stdin:
        request = json.loads(line)
        log = os.open(
            os.path.join(request["folder"], "output.txt"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600
        )
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        code = _run_vela(vela, request["arguments"])
        sys.stdout.flush()
        sys.stderr.flush()
        _send_exit_code(answers, code)


def _send_exit_code(answers: TextIO, code: int) -> None:
    answers.write(f"{code:4d}\n")
    answers.flush()


def _run_vela(vela: Callable[[list[str]], int | None], arguments: list[str]) -> int:
    """Returns Vela's exit code."""
    try:
        return int(vela(arguments) or 0)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 1


if __name__ == "__main__":
    main()
