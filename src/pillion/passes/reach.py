# SPDX-License-Identifier: Apache-2.0
"""Whether results stay within 32 bits on their way to int8. Kernels wrap there, and what they answer then is nothing: files that
were made elsewhere may have it so, programs that are made here do not."""

from __future__ import annotations

from pillion.errors import PillionError
from pillion.ir import numerics
from pillion.ir.op import Op


def want_reach(op: Op) -> None:
    """Refuses an op whose largest sum, shifted to the left as its scales ask for, does not fit."""
    try:
        largest = max((sum_ << max(shift, 0) for sum_, shift in op.largest_sums()), default=0)
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
