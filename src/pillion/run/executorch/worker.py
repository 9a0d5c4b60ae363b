# SPDX-License-Identifier: Apache-2.0
"""The process of the runtime: started by `remote`, it answers until its standard input ends. `python -m … PLUGIN`"""

from __future__ import annotations

import sys
from pathlib import Path

from pillion.errors import PillionError
from pillion.ir.types import Array
from pillion.run import messages
from pillion.run.executorch.runtime import host
from pillion.run.runtime_process import serve


def main() -> None:
    """Runs programs and answers."""
    plugin = Path(sys.argv[1])

    def run(question: messages.Message, program: bytes, inputs: list[Array]) -> bytes:
        return messages.write(arrays=host(plugin).execute(program, inputs, question.goes_on))

    serve(lambda: host(plugin), run, _failure)


def _failure(error: Exception) -> dict[str, str] | None:
    if not isinstance(error, PillionError):
        return None
    return {"what": error.what, "rule": error.rule, "here": error.here, "help": error.help}


if __name__ == "__main__":
    main()
