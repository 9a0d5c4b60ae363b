# SPDX-License-Identifier: Apache-2.0
"""Ops as programs of others have them: multipliers and zero points, and no scales."""

from __future__ import annotations

import dataclasses
from typing import Any

from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, ScaledOp
from pillion.ir.types import DType, PerTensor, Quant, UnknownScale, Value
from pillion.ops import ALL_OPS, Softmax

SCALED: list[type[ScaledOp]] = [cls for cls in ALL_OPS if issubclass(cls, ScaledOp)]
"""The ops that take explicit multipliers."""


def examples(cls: type[Op]) -> list[ScaledOp]:
    """The examples of a class, as ops of which multipliers are known; programs of others have int8 activations."""
    scaled = [op for op in cls.examples() if isinstance(op, ScaledOp)]
    return [op for op in scaled if DType.INT16 not in {v.dtype for v in (*op.operands, *op.results)}]


def with_given(op: ScaledOp, **fields: Any) -> ScaledOp:
    """The op with the multipliers that follow from its scales as explicit ones."""
    explicit = {"explicit": op.from_scales(Arithmetic.CMSIS_NN), **fields}
    return dataclasses.replace(op, **explicit)


def unscaled(op: ScaledOp) -> ScaledOp:
    """The op with the same multipliers, and no scales but those that the op fixes."""
    fixed = set(op.results) if isinstance(op, Softmax) else set()
    values = {v: _without_scale(v) for v in (*op.operands, *op.results) if v not in fixed}
    made = with_given(op).substitute(values)
    assert isinstance(made, ScaledOp)
    return made


def _without_scale(value: Value) -> Value:
    quant: Quant | None = None
    if value.dtype.value == "int8":
        held = value.type.quant
        quant = UnknownScale(held.zero_point if isinstance(held, PerTensor) else 0)
    return dataclasses.replace(value, type=dataclasses.replace(value.type, quant=quant))
