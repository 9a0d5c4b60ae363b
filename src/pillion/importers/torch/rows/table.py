# SPDX-License-Identifier: Apache-2.0
"""The table itself, and what its rows have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from pillion.errors import PillionError
from pillion.importers.torch.layout import Placed
from pillion.importers.torch.rows.quantization import RULES, Rule
from pillion.ir.types import Pair, Sides

aten = torch.ops.aten
Lowering = Callable[..., Any]
ROWS: dict[Any, Lowering] = {}
Decorated = TypeVar("Decorated", bound=Lowering)


def lowers(*targets: Any, quantized: Rule) -> Callable[[Decorated], Decorated]:
    """Puts a function into the table under one or more operators, and how their calls are quantized beside it."""

    def put(function: Decorated) -> Decorated:
        ROWS.update((target, function) for target in targets)
        RULES.update((target, quantized) for target in targets)
        return function

    return put


def pair(value: int | Sequence[int]) -> Pair:
    """Gives height and width from a number, a list of one, or a list of two."""
    numbers = [value] if isinstance(value, int) else list(value)
    return (numbers[0], numbers[-1])


def sides(padding: int | Sequence[int]) -> Sides:
    """Gives equal padding on both sides as padding of four sides."""
    vertical, horizontal = pair(padding)
    return (vertical, horizontal, vertical, horizontal)


def refuse(what: str, rule: str, here: object, help: str) -> PillionError:
    """Makes the error for an operator that cannot be imported as it is called."""
    return PillionError(what, rule=rule, here=str(here), help=help)


def want_constant(op: str, what: str, x: Placed) -> None:
    """Refuses an operator whose weights are computed."""
    if not x.value.is_constant:
        raise refuse(
            f"{op} with a computed {what} is not supported",
            f"{op}: the {what} is constant",
            repr(x.value),
            "torch.bmm multiplies two computed tensors",
        )
