# SPDX-License-Identifier: Apache-2.0
"""The child process that runs ExecuTorch. `remote` starts it with the path of the plug-in; it serves requests
until its input ends."""

from __future__ import annotations

import sys
from pathlib import Path

from pillion.errors import PillionError
from pillion.ir.types import Array
from pillion.run import process_messages
from pillion.run.executorch.runtime import host
from pillion.run.runtime_process import serve_requests


def main() -> None:
    """Serves requests until the input ends."""
    plugin = Path(sys.argv[1])

    def run(question: process_messages.Message, program: bytes, inputs: list[Array]) -> bytes:
        return process_messages.write_message(arrays=host(plugin).execute(program, inputs, question.goes_on))

    serve_requests(lambda: host(plugin), run, _error_parts)


def _error_parts(error: Exception) -> dict[str, str] | None:
    if not isinstance(error, PillionError):
        return None
    return {"what": error.what, "rule": error.rule, "here": error.here, "help": error.help}


if __name__ == "__main__":
    main()
