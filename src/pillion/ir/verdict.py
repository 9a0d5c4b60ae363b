# SPDX-License-Identifier: Apache-2.0
"""Verdicts: answers to "may this op run here?", with the rule, its requirement, and the found value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """The result of one rule for one op: whether it holds, its requirement, and the found value."""

    rule: str
    ok: bool
    wanted: str
    got: str
    what: str = ""
    """An explanation for users, if rule and values do not suffice."""
    help: str = ""
    """The way out, if the rule knows one."""

    def __str__(self) -> str:
        return f"{self.rule}: wants {self.wanted}, got {self.got}"


def all_ok(verdicts: Iterable[Verdict]) -> bool:
    """Whether every rule holds."""
    return all(v.ok for v in verdicts)


def failed_rules(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Returns the verdicts of rules that do not hold."""
    return [v for v in verdicts if not v.ok]
