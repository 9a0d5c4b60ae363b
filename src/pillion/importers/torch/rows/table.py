# SPDX-License-Identifier: Apache-2.0
"""The row table and helpers of its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from pillion.errors import PillionError
from pillion.importers.torch.fx_nodes import per_axis
from pillion.importers.torch.layout import LayoutValue
from pillion.importers.torch.rows.quantization import RULES, QuantizationRule
from pillion.ir.types import Pair, Sides

aten = torch.ops.aten
Lowering = Callable[..., Any]
ROWS: dict[Any, Lowering] = {}
Decorated = TypeVar("Decorated", bound=Lowering)


def lowers(*targets: Any, quantized: QuantizationRule) -> Callable[[Decorated], Decorated]:
    """Registers a function as the row of some operators, with their quantization rule."""

    def put(function: Decorated) -> Decorated:
        ROWS.update((target, function) for target in targets)
        RULES.update((target, quantized) for target in targets)
        return function

    return put


def height_and_width(value: int | Sequence[int]) -> Pair:
    """Returns height and width from a number, a list of one, or a list of two."""
    vertical, horizontal = per_axis(value, 2)
    return vertical, horizontal


def symmetric_padding(padding: int | Sequence[int]) -> Sides:
    """Returns symmetric padding as padding of four sides."""
    vertical, horizontal = height_and_width(padding)
    return (vertical, horizontal, vertical, horizontal)


def unsupported_call_error(what: str, rule: str, here: object, help: str) -> PillionError:
    """Returns the error for an operator that cannot be imported as called."""
    return PillionError(what, rule=rule, here=str(here), help=help)


def require_constant(op: str, what: str, x: LayoutValue) -> None:
    """Raises if the weights of an operator are not constant."""
    if not x.value.is_constant:
        raise unsupported_call_error(
            f"{op} with a computed {what} is not supported",
            f"{op}: the {what} is constant",
            repr(x.value),
            "torch.bmm multiplies two computed tensors",
        )
