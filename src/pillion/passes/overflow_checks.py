# SPDX-License-Identifier: Apache-2.0
"""Refuses ops with intermediate sums that could exceed 32 bits: kernels would wrap. Only files from elsewhere contain
such ops."""

from __future__ import annotations

from pillion.errors import PillionError
from pillion.ir import numerics
from pillion.ir.op import Op


def require_sums_fit_32_bits(op: Op) -> None:
    """Raises if the largest sum of an op, shifted left as its scales require, exceeds 32 bits."""
    try:
        largest = max((sum_ << max(shift, 0) for sum_, shift in op.largest_sums()), default=0)
    except ValueError as error:  # no shift is large enough
        raise _overflow_error(op, str(error)) from None
    if largest > numerics.INT32_MAX:
        raise _overflow_error(op, f"up to {largest}")


def _overflow_error(op: Op, here: str) -> PillionError:
    return op.refuse(
        "sums times the ratio of scales fit 32 bits",
        here,
        "its result is calibrated to be far smaller than its operands make it: calibrate with data that the model will see, "
        "and scale or clamp before this op instead of after it",
    )
