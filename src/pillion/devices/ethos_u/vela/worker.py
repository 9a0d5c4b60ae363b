# SPDX-License-Identifier: Apache-2.0
"""The child process in which Vela runs. It is run as a file, and imports nothing of Pillion.

Each request is a line of JSON: a folder, and the options. What Vela prints goes into a file of that folder, its results lie beside it,
and the answer is a line with its exit code."""

from __future__ import annotations

import json
import os
import sys
import traceback


def main() -> None:
    """Answers requests until there are none."""
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        request = json.loads(line)
        log = os.open(
            os.path.join(request["folder"], "output.txt"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600
        )
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        code = _compile(request["arguments"])
        sys.stdout.flush()
        sys.stderr.flush()
        answers.write(f"{code:4d}\n")
        answers.flush()


def _compile(arguments: list[str]) -> int:
    """The exit code that Vela would end with."""
    try:
        from ethosu.vela.vela import main as vela

        return int(vela(arguments) or 0)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
        return 1


if __name__ == "__main__":
    main()
