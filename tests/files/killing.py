# SPDX-License-Identifier: Apache-2.0
"""Killing a process at each of its steps."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

CHANGES = {f"os.{name}" for name in ("rename", "remove", "mkdir", "rmdir", "chmod", "chown")}


def killed_at(step: int, action: Callable[[], object]) -> bool:
    """Does it in a child process that dies, without any clean-up, before its nth call of the system that changes files."""
    child = os.fork()
    if child == 0:
        steps = iter(range(step + 1))

        def count(event: str, args: tuple[object, ...]) -> None:
            writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
            if (writes or event in CHANGES) and next(steps) == step:
                os._exit(9)

        sys.addaudithook(count)
        try:
            action()
        except BaseException:
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9)
    return status == 9
