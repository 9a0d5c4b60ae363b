# SPDX-License-Identifier: Apache-2.0
"""The portable kernel of functions of the sum of two squares."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.kernel_conditions import int8, same_shape
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Value
from pillion.ir.verdict import Verdict
from pillion.ops.magnitude import Magnitude


def params(op: Magnitude) -> Params:
    """Returns the parameters of all magnitude kernels."""
    first, second = op.factors
    return {
        "count": op.y.type.elements,
        **{"a_zp": op.a.zero_point, "b_zp": op.b.zero_point, "a_factor": first, "b_factor": second},
        **{"first": op.first, "step": -1 if op.falls else 1, "thresholds": op.levels.astype(np.int32)},
    }


def calls_magnitude(op: Magnitude, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a function of the sum of two squares."""
    return (Call(PORTABLE.routine("magnitude_s8"), params(op), (op.a, op.b), op.y),)


def check(op: Magnitude, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether both operands and the result are int8."""
    return int8(a=op.a, b=op.b, y=op.y)


def in_place_binary(op: Magnitude) -> tuple[Value, ...]:
    """Returns the operands whose memory the result may overwrite."""
    return same_shape(op, op.a, op.b)


KERNELS: tuple[Kernel, ...] = (PORTABLE.kernel(Magnitude, calls_magnitude, check, in_place=in_place_binary),)
