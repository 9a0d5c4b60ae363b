# SPDX-License-Identifier: Apache-2.0
"""The child process that runs ExecuTorch. `remote` starts it with the path of the plug-in; it serves requests
until its input ends."""

from __future__ import annotations

import sys
from pathlib import Path

from pillion.ir.types import Array
from pillion.run.executorch.runtime import host
from pillion.run.process_messages import Facts, write_message
from pillion.run.runtime_process import serve_requests


def main() -> None:
    """Serves requests until the input ends."""
    plugin = Path(sys.argv[1])

    def run(question: Facts, arrays: list[Array]) -> bytes:
        program, *inputs = arrays
        return write_message(host(plugin).execute(program.tobytes(), inputs, question["goes_on"]))

    serve_requests(lambda: host(plugin), run)


if __name__ == "__main__":
    main()
