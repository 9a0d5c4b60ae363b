# SPDX-License-Identifier: Apache-2.0
"""The answer to "may this op run here?": never a bare bool, always the rule, what it wants and what was found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """The answer of one rule about one op: whether it holds, what it wants, and what was found."""

    rule: str
    ok: bool
    wanted: str
    got: str
    what: str = ""
    """What is wrong, in words for users, where rule and values are not enough."""
    help: str = ""
    """The way out, where the one who judges knows it."""

    def __str__(self) -> str:
        return f"{self.rule}: wants {self.wanted}, got {self.got}"


def all_ok(verdicts: Iterable[Verdict]) -> bool:
    """Whether every verdict is that the rule holds."""
    return all(v.ok for v in verdicts)


def failures(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Gives the verdicts of rules that do not hold."""
    return [v for v in verdicts if not v.ok]
