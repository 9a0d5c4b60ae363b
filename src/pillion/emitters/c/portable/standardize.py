# SPDX-License-Identifier: Apache-2.0
"""The portable kernel of norms."""

from __future__ import annotations

import math

import numpy as np

from pillion.emitters.c.conditions import int8, overwritable
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.library import PORTABLE
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType, Value
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
        **{"variance_bits": op.variance_bits, **words(added, "added")},
        **{"factor_bits": op.factor_bits, "places": op.places, "low": op.low, "high": op.high},
        "mean_bits": op.mean_bits,
        "each_channel": int(len(factors) > 1),
        **{"factors": factors.astype(np.int32), "offsets": offsets.astype(np.int32)},
    }


def words(number: int, name: str) -> Params:
    """Gives a number of 64 bits in two fields of 32, as C has them in an int32_t."""
    low = number & 0xFFFFFFFF
    return {f"{name}_high": number >> 32, f"{name}_low": low - (1 << 32) if low >> 31 else low}


def standardize(op: Standardize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a norm."""
    return (Call(PORTABLE.routine("standardize_s8"), params(op), (op.x,), op.y),)


def judge(op: Standardize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the element types of a norm."""
    return int8(x=op.x, y=op.y)


def of_wide(op: Standardize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a norm whose operand has 16 bits."""
    return (Call(PORTABLE.routine("standardize_s16"), params(op), (op.x,), op.y),)


def judge_wide(op: Standardize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the element types of a norm whose operand has 16 bits."""
    return (Verdict("x", op.x.dtype is DType.INT16, "int16", op.x.dtype.value), *int8(y=op.y))


def judge_wide_group(op: Standardize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether an operand of 16 bits has one group."""
    return (*judge_wide(op, arithmetic), Verdict("groups", op.groups == 1, "1", str(op.groups)))


def in_place(op: Standardize) -> tuple[Value, ...]:
    """Gives the operand, whose memory the result may take over: sums are complete before the first result is written."""
    return overwritable(op, op.x)


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.row(Standardize, standardize, judge, in_place=in_place),
    PORTABLE.row(Standardize, of_wide, judge_wide, name="standardize_wide"),
)
