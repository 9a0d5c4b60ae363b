# SPDX-License-Identifier: Apache-2.0
"""The portable kernel of norms."""

from __future__ import annotations

import math

import numpy as np

from pillion.emitters.c.conditions import int8, overwritable
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.library import PORTABLE
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Value
from pillion.ir.verdict import Verdict
from pillion.ops.standardize import Standardize


def params(op: Standardize) -> Params:
    """Gives the parameters that all kernels of norms take."""
    factors, offsets = op.factors_and_offsets()
    channels = op.x.shape[-1]
    added = op.added
    return {
        "rows": math.prod(op.x.shape[: op.axis]),
        "positions": math.prod(op.x.shape[op.axis : -1]),
        **{"groups": op.groups, "inner": channels // op.groups, "elements": op.elements},
        **{"in_zp": op.x.zero_point, "centred": int(op.centred)},
        **{"mean_multiplier": op.mean_multiplier.mantissa, "mean_shift": op.mean_multiplier.shift},
        **{"variance_bits": op.variance_bits, "added_high": added >> 32, "added_low": _signed(added)},
        **{"factor_bits": op.factor_bits, "places": op.places, "low": op.low, "high": op.high},
        "each_channel": int(len(factors) > 1),
        **{"factors": factors.astype(np.int32), "offsets": offsets.astype(np.int32)},
    }


def _signed(number: int) -> int:
    """The lower 32 bits, as C has them in an int32_t."""
    low = number & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def standardize(op: Standardize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a norm."""
    return (Call(PORTABLE.routine("standardize_s8"), params(op), (op.x,), op.y),)


def judge(op: Standardize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the element types of a norm."""
    return int8(x=op.x, y=op.y)


def in_place(op: Standardize) -> tuple[Value, ...]:
    """Gives the operand, whose memory the result may take over: sums are complete before the first result is written."""
    return overwritable(op, op.x)


KERNELS: tuple[Kernel, ...] = (PORTABLE.row(Standardize, standardize, judge, in_place=in_place),)
