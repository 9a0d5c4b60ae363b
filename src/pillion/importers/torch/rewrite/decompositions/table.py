# SPDX-License-Identifier: Apache-2.0
"""The table of decompositions: functions of tensors that are traced in place of a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch.fx import Node


@dataclass(frozen=True)
class Decomposition:
    """A function with an operator's arguments, and a test for the calls that it replaces."""

    function: Callable[..., Any]
    applies: Callable[[Node], bool]


TABLE: dict[Any, Decomposition] = {}
"""Decompositions by operator."""
LATE: dict[Any, Decomposition] = {}
"""Decompositions that run after batch norms are folded into layers."""


def decompose_by(
    function: Callable[..., Any],
    *targets: Any,
    when: Callable[[Node], bool] = lambda _: True,
    table: dict[Any, Decomposition] = TABLE,
) -> None:
    """Enters the decomposition of some operators."""
    for target in targets:
        assert target not in table, f"{target} has two decompositions"
        table[target] = Decomposition(function, when)
