# SPDX-License-Identifier: Apache-2.0
"""The portable kernel of norms."""

from __future__ import annotations

import math

import numpy as np

from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.kernel_conditions import int8, same_shape
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType, Value
from pillion.ir.verdict import Verdict
from pillion.ops.normalize import Standardize


def params(op: Standardize) -> Params:
    """Returns the parameters of all norm kernels."""
    factors, offsets = op.factors_and_offsets()
    channels = op.x.shape[-1]
    added = op.added
    return {
        "rows": math.prod(op.x.shape[: op.axis]),
        "positions": math.prod(op.x.shape[op.axis : -1]),
        **{"groups": op.groups, "inner": channels // op.groups, "elements": op.elements},
        **{"in_zp": op.x.zero_point, "centred": int(op.centred)},
        **{"mean_multiplier": op.mean_multiplier.mantissa, "mean_shift": op.mean_multiplier.shift},
        **{"variance_bits": op.variance_bits, **int64_fields(added, "added")},
        **{"factor_bits": op.factor_bits, "places": op.places, "low": op.low, "high": op.high},
        "mean_bits": op.mean_bits,
        "each_channel": int(len(factors) > 1),
        **{"factors": factors.astype(np.int32), "offsets": offsets.astype(np.int32)},
    }


def int64_fields(number: int, name: str) -> Params:
    """Returns a 64-bit number as two int32 fields."""
    low = number & 0xFFFFFFFF
    return {f"{name}_high": number >> 32, f"{name}_low": low - (1 << 32) if low >> 31 else low}


def calls_norm(op: Standardize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a norm."""
    return (Call(PORTABLE.routine("standardize_s8"), params(op), (op.x,), op.y),)


def check(op: Standardize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether operand and result of a norm are int8."""
    return int8(x=op.x, y=op.y)


def calls_norm_wide(op: Standardize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a norm with a 16-bit operand."""
    return (Call(PORTABLE.routine("standardize_s16"), params(op), (op.x,), op.y),)


def check_wide(op: Standardize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether a norm maps int16 to int8."""
    return (Verdict("x", op.x.dtype is DType.INT16, "int16", op.x.dtype.value), *int8(y=op.y))


def check_wide_group(op: Standardize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether a norm maps int16 to int8 with a single group."""
    return (*check_wide(op, arithmetic), Verdict("groups", op.groups == 1, "1", str(op.groups)))


def in_place(op: Standardize) -> tuple[Value, ...]:
    """Returns the operand, whose memory the result may overwrite: sums are complete before the first result is
    written."""
    return same_shape(op, op.x)


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(Standardize, calls_norm, check, in_place=in_place),
    PORTABLE.kernel(Standardize, calls_norm_wide, check_wide, name="standardize_wide"),
)
