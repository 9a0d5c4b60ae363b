# SPDX-License-Identifier: Apache-2.0
"""The DSP kernel of norms."""

from __future__ import annotations

from pillion.emitters.c.kernel import Call, Kernel
from pillion.emitters.c.library import DSP
from pillion.emitters.c.portable import standardize as portable
from pillion.ir.numerics import Arithmetic
from pillion.ops.standardize import Standardize

STANDARDIZE = DSP.routine("standardize_s8", "clamp")
WIDE = DSP.routine("standardize_s16", "clamp")
ROUTINES = (STANDARDIZE, WIDE)


def calls(op: Standardize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a norm."""
    return (Call(STANDARDIZE, portable.params(op), (op.x,), op.y),)


def scratch_bytes(op: Standardize) -> int:
    """Gives the room for four numbers of each channel, where there are groups."""
    return 16 * op.x.shape[-1] if op.groups > 1 else 0


def of_wide(op: Standardize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a norm whose operand has 16 bits."""
    return (Call(WIDE, portable.params(op), (op.x,), op.y),)


KERNELS: tuple[Kernel, ...] = (
    DSP.row(Standardize, of_wide, portable.judge_wide_group, name="standardize_wide"),
    DSP.row(Standardize, calls, portable.judge, scratch_bytes=scratch_bytes, in_place=portable.in_place),
)
