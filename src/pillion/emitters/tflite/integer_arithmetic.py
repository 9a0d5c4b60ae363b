# SPDX-License-Identifier: Apache-2.0
"""Writes int32 arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from pillion.emitters.tflite.exact import refusal
from pillion.emitters.tflite.node import Node
from pillion.ir.types import Value
from pillion.ops.integer_arithmetic import Calculation, Whole
from pillion.schemas import tflite

CODES: Mapping[Calculation, tuple[str, Callable[[], Any] | None]] = MappingProxyType(
    {
        Calculation.ADD: ("ADD", tflite.AddOptions),
        Calculation.SUB: ("SUB", tflite.SubOptions),
        Calculation.MUL: ("MUL", tflite.MulOptions),
        Calculation.MINIMUM: ("MINIMUM", tflite.MaximumMinimumOptions),
        Calculation.MAXIMUM: ("MAXIMUM", tflite.MaximumMinimumOptions),
        Calculation.FLOOR_DIV: ("FLOOR_DIV", None),
        Calculation.FLOOR_MOD: ("FLOOR_MOD", None),
        Calculation.XOR: ("BITWISE_XOR", None),
        Calculation.SHIFT_RIGHT: ("RIGHT_SHIFT", None),
    }
)
"""LiteRT's int32 operators and their options."""
DIVISIONS = (Calculation.FLOOR_DIV, Calculation.FLOOR_MOD)
MOST_AXES = 4
"""The most axes along which LiteRT broadcasts."""


def whole(op: Whole) -> list[Node]:
    """Returns the operator of an int32 calculation. LiteRT fails on a division by 0."""
    if op.calculation not in CODES:
        known = ", ".join(calculation.value for calculation in CODES)
        raise refusal(
            op, f"LiteRT computes {known} of whole numbers", op.calculation.value, "write C: -o folder/"
        )
    if op.a.shape != op.b.shape and op.y.type.rank > MOST_AXES:
        raise refusal(op, f"LiteRT broadcasts at most {MOST_AXES} axes", repr(op.y), "join axes by a reshape")
    is_safe = op.b.is_constant and int(op.b.constant.min()) > 0
    if op.calculation in DIVISIONS and not is_safe:
        rule = "LiteRT stops at a divisor of 0: it is a constant above 0"
        raise refusal(op, rule, repr(op.b), "write C: -o folder/")
    if op.calculation is Calculation.SHIFT_RIGHT and not _is_amount(op.b):
        rule = "LiteRT moves by 0 to 31 places, and by one of these where more or less is asked for: the places are constants"
        raise refusal(op, rule, repr(op.b), "write C: -o folder/")
    code, options = CODES[op.calculation]
    return [Node(code, (op.a, op.b), (op.y,), options() if options else None)]


def _is_amount(places: Value) -> bool:
    return places.is_constant and int(places.constant.min()) >= 0 and int(places.constant.max()) < 32
