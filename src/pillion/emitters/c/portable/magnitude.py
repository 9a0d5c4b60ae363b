# SPDX-License-Identifier: Apache-2.0
"""The portable kernel of functions of the sum of two squares."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.conditions import int8, overwritable
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.library import PORTABLE
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Value
from pillion.ir.verdict import Verdict
from pillion.ops.magnitude import Magnitude


def params(op: Magnitude) -> Params:
    """Gives the parameters that all kernels of such functions take."""
    first, second = op.factors
    return {
        "count": op.y.type.elements,
        **{"a_zp": op.a.zero_point, "b_zp": op.b.zero_point, "a_factor": first, "b_factor": second},
        **{"first": op.first, "step": -1 if op.falls else 1, "thresholds": op.levels.astype(np.int32)},
    }


def magnitude(op: Magnitude, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a function of the sum of two squares."""
    return (Call(PORTABLE.routine("magnitude_s8"), params(op), (op.a, op.b), op.y),)


def judge(op: Magnitude, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the element types."""
    return int8(a=op.a, b=op.b, y=op.y)


def either_operand(op: Magnitude) -> tuple[Value, ...]:
    """Gives the operands whose memory the result may take over."""
    return overwritable(op, op.a, op.b)


KERNELS: tuple[Kernel, ...] = (PORTABLE.row(Magnitude, magnitude, judge, in_place=either_operand),)
