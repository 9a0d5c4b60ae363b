# SPDX-License-Identifier: Apache-2.0
"""The DSP kernel of norms."""

from __future__ import annotations

from pillion.emitters.c.kernel import Call, Kernel
from pillion.emitters.c.library import DSP
from pillion.emitters.c.portable import standardize as portable
from pillion.ir.numerics import Arithmetic
from pillion.ops.standardize import Standardize

STANDARDIZE = DSP.routine("standardize_s8", "clamp")
ROUTINES = (STANDARDIZE,)


def calls(op: Standardize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a norm."""
    return (Call(STANDARDIZE, portable.params(op), (op.x,), op.y),)


def scratch_bytes(op: Standardize) -> int:
    """Gives the room for four numbers of each channel, where there are groups."""
    return 16 * op.x.shape[-1] if op.groups > 1 else 0


KERNELS: tuple[Kernel, ...] = (
    DSP.row(Standardize, calls, portable.judge, scratch_bytes=scratch_bytes, in_place=portable.in_place),
)
