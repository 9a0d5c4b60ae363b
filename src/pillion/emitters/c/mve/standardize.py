# SPDX-License-Identifier: Apache-2.0
"""The Helium kernel of norms."""

from __future__ import annotations

import math

from pillion.emitters.c.kernel import Call, Kernel
from pillion.emitters.c.library import MVE
from pillion.emitters.c.portable import standardize as portable
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict
from pillion.ops.standardize import Standardize

MOST_POSITIONS = 2**16
"""Squares that 32 bits hold together, lane by lane."""

FEW_CHANNELS = 48
"""Numbers of fewer channels stand in scratch several times, so that several positions are done like one."""


def calls(op: Standardize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a norm."""
    return (Call(MVE.routine("standardize_s8"), portable.params(op), (op.x,), op.y),)


def takes(op: Standardize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the element types of a norm, and whether the squares of each channel fit 32 bits where there are groups."""
    positions = math.prod(op.x.shape[op.axis : -1])
    fits = op.groups == 1 or positions <= MOST_POSITIONS
    few = Verdict("positions", fits, f"one group, or at most {MOST_POSITIONS}", str(positions))
    return (*portable.judge(op, arithmetic), few)


def scratch_bytes(op: Standardize) -> int:
    """Gives the room for two numbers of each channel, where there are groups; for four of each, several times, where there are few."""
    channels = op.x.shape[-1]
    if op.groups == 1:
        return 0
    return 16 * channels * -(-FEW_CHANNELS // channels) if channels < FEW_CHANNELS else 8 * channels


def of_wide(op: Standardize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a norm whose operand has 16 bits."""
    return (Call(MVE.routine("standardize_s16"), portable.params(op), (op.x,), op.y),)


KERNELS: tuple[Kernel, ...] = (
    MVE.row(Standardize, of_wide, portable.judge_wide_group, name="standardize_wide"),
    MVE.row(Standardize, calls, takes, scratch_bytes=scratch_bytes, in_place=portable.in_place),
)
