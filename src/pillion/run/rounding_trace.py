# SPDX-License-Identifier: Apache-2.0
"""Traces the reference's arithmetic for one element of a product: its accumulator, and every step to int8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array
from pillion.ops import Linear
from pillion.ops.layer import Layer

Index = tuple[int, ...]


@dataclass(frozen=True)
class RoundingStep:
    """One step of the arithmetic, and its result."""

    name: str
    value: int | float


def rounding_steps(
    op: Op, arithmetic: Arithmetic, operands: Sequence[Array], index: Index
) -> tuple[RoundingStep, ...]:
    """Returns the steps to one element of the result; empty for other ops than integer products."""
    if not isinstance(op, Layer) or op.x.dtype.value != "int8":
        return ()
    x, weights, bias = operands
    accumulator = int(op.accumulators(x, weights, bias)[index])
    channel = index[-1]
    first = RoundingStep(f"accumulator, bias {int(bias[channel])} included", accumulator)
    if isinstance(op, Linear) and arithmetic is Arithmetic.TFLITE:
        scaled = _double_precision_steps(accumulator, float(op.ratios[channel]))
    else:
        mantissas, shifts = op.multipliers
        scaled = _requantize_steps(accumulator, int(mantissas[channel]), int(shifts[channel]))
    moved = int(scaled[-1].value) + op.y.zero_point
    clamped = int(numerics.clamp_to_int8(np.array(moved), op.low, op.high))
    return (
        first,
        *scaled,
        RoundingStep(f"plus zero point {op.y.zero_point}", moved),
        RoundingStep(f"clamped to {op.low}..{op.high}", clamped),
    )


def _requantize_steps(accumulator: int, mantissa: int, shift: int) -> tuple[RoundingStep, ...]:
    """Returns the steps of a requantization: the multiplication rounds half up, the right shift half away
    from zero."""
    left, right = max(shift, 0), max(-shift, 0)
    shifted = int(numerics.wrap_to_32_bits(np.array(accumulator << left)))
    product = int(numerics.multiply_high(shifted, mantissa))
    steps = [RoundingStep(f"shifted left by {left}", shifted)] if left else []
    steps.append(RoundingStep(f"times {mantissa} / 2^31, rounded half up", product))
    if right:
        last = int(numerics.shift_right(product, right))
        steps.append(RoundingStep(f"shifted right by {right}, rounded half away from zero", last))
    return tuple(steps)


def _double_precision_steps(accumulator: int, ratio: float) -> tuple[RoundingStep, ...]:
    product = accumulator * ratio
    return (
        RoundingStep(f"times {ratio!r} in double precision", product),
        RoundingStep("rounded half away from zero", int(numerics.round_half_away(product))),
    )
