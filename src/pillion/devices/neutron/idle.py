# SPDX-License-Identifier: Apache-2.0
"""Ops that give the converter nothing to compute: it fails on segments of them alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.ops import (
    Add,
    Concat,
    Mean,
    Mul,
    Pad,
    ReduceMax,
    ReduceMin,
    ReduceSum,
    Reshape,
    Slice,
    Sub,
    Transpose,
)


def is_idle(op: Op) -> bool:
    """Whether an op only moves its operand or answers with it."""
    idle = IDLE.get(type(op))
    return idle is not None and idle(op)


def _always(op: Op) -> bool:
    return True


def _alone(op: Concat) -> bool:
    return len(op.xs) == 1


def _pads_nothing(op: Pad) -> bool:
    return not any((*op.before, *op.after))


def _over_unit_axes(op: Any) -> bool:
    return bool(op.x.type.elements == op.y.type.elements and op.x.type.quant == op.y.type.quant)


def _adds_zero(op: Add | Sub) -> bool:
    return _keeps(op, op.a, op.b, 0.0) or (isinstance(op, Add) and _keeps(op, op.b, op.a, 0.0))


def _multiplies_by_one(op: Mul) -> bool:
    return _keeps(op, op.a, op.b, 1.0) or _keeps(op, op.b, op.a, 1.0)


def _keeps(op: Add | Sub | Mul, kept: Value, neutral: Value, real: float) -> bool:
    """Whether the result is one operand, because the other one is constant and `real` throughout."""
    if not neutral.is_constant or kept.type != op.y.type or (op.low, op.high) != (-128, 127):
        return False
    levels = (neutral.constant.astype(np.int64) - neutral.zero_point) * neutral.scale
    return bool((levels == real).all())


IDLE: dict[type[Op], Callable[[Any], bool]] = {
    Reshape: _always,
    Transpose: _always,
    Slice: _always,
    Concat: _alone,
    Pad: _pads_nothing,
    Mean: _over_unit_axes,
    ReduceSum: _over_unit_axes,
    ReduceMax: _over_unit_axes,
    ReduceMin: _over_unit_axes,
    Add: _adds_zero,
    Sub: _adds_zero,
    Mul: _multiplies_by_one,
}
"""Kinds of ops that may be idle; all others compute."""
