# SPDX-License-Identifier: Apache-2.0
"""What a command answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def facts(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


Call = Callable[..., Answer]


def refused(answer: Answer, *words: str) -> None:
    """One message in four parts, exit code 2, and nothing else."""
    assert answer.code == 2, answer
    assert answer.out == ""
    message = answer.err[answer.err.index("error: ") :]
    assert [
        line.split()[0] for line in message.splitlines()[1:] if line[2:6].strip() in ("rule", "here", "help")
    ] == [
        "rule",
        "here",
        "help",
    ]
    for word in words:
        assert word in message, message
