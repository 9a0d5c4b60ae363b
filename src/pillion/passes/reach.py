# SPDX-License-Identifier: Apache-2.0
"""Whether results stay within 32 bits on their way to int8. Kernels wrap there, and what they answer then is nothing: files that
were made elsewhere may have it so, programs that are made here do not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pillion.errors import PillionError
from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ops import BatchMatmul, Linear, Mul, Prelu, ReduceSum
from pillion.ops.conv import Convolution
from pillion.ops.elementwise import ADD_LEFT_SHIFT, Sum
from pillion.ops.pool import Mean

LEVELS = 255
"""The distance between the least and the largest int8 value."""


def want_reach(op: Op) -> None:
    """Refuses an op whose largest sum, shifted to the left as its scales ask for, does not fit."""
    try:
        largest = max((sum_ << max(shift, 0) for sum_, shift in _sums(op)), default=0)
    except ValueError as error:  # no shift is large enough
        raise _refusal(op, str(error)) from None
    if largest > numerics.INT32_MAX:
        raise _refusal(op, f"up to {largest}")


def _refusal(op: Op, here: str) -> PillionError:
    refusal = op.refuse("sums times the ratio of scales fit 32 bits", here)
    return PillionError(
        refusal.what,
        rule=refusal.rule,
        here=refusal.here,
        help="its result is calibrated to be far smaller than its operands make it: calibrate with data that the model will see, "
        "and scale or clamp before this op instead of after it",
    )


def _sums(op: Op) -> Iterator[tuple[int, int]]:
    """The largest sums of an op, each with the shift of its multiplier."""
    arithmetic = Arithmetic.CMSIS_NN
    match op:
        case Convolution() | Linear() if op.weights.is_constant and op.bias.is_constant:
            weights = op.weights_per_output if isinstance(op, Convolution) else op.weights.constant
            sums = LEVELS * numerics.row_magnitudes(weights) + np.abs(op.bias.constant.astype(np.int64))
            yield from zip(sums.tolist(), op.multipliers[1].tolist(), strict=True)
        case Sum():
            yield 2 * LEVELS << ADD_LEFT_SHIFT - 1, op.rescale[2].shift
        case Mul():
            yield LEVELS**2, op.multiplier(arithmetic).shift
        case BatchMatmul():
            yield op.largest_sum, op.multiplier(arithmetic).shift
        case Mean():
            yield LEVELS * op.count, op.multiplier(arithmetic).shift
        case ReduceSum():
            yield LEVELS * op.count, op.multiplier.shift
        case Prelu():
            plain, sloped = op.multipliers(arithmetic)
            yield from ((LEVELS, plain.shift), (LEVELS**2, sloped.shift))
