# SPDX-License-Identifier: Apache-2.0
"""The portable kernel of PReLU, a leaky ReLU with a tensor of slopes."""

from __future__ import annotations

import math

from pillion.emitters.c.kernel import Call, Kernel, Params, scaling
from pillion.emitters.c.kernel_conditions import all_int8
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Value
from pillion.ops.prelu import Prelu


def calls_prelu(op: Prelu, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a PReLU."""
    axis = next((i for i, size in enumerate(op.slope_shape) if size > 1), 0)
    slopes = op.slope.type.elements
    plain, sloped = op.multipliers(arithmetic)
    params: Params = {
        "outer": math.prod(op.x.shape[:axis]) if slopes > 1 else 1,
        "slopes": slopes,
        "inner": math.prod(op.x.shape[axis + 1 :]) if slopes > 1 else op.x.type.elements,
        "in_zp": op.x.zero_point,
        "slope_zp": op.slope.zero_point,
        "out_zp": op.y.zero_point,
        **scaling(plain),
        "slope_multiplier": sloped.mantissa,
        "slope_shift": sloped.shift,
    }
    return (Call(PORTABLE.routine("prelu_s8"), params, (op.x, op.slope), op.y),)


def in_place(op: Prelu) -> tuple[Value, ...]:
    """Returns the operand, whose memory the result may overwrite if it is computed."""
    return () if op.x.is_constant else (op.x,)


KERNELS: tuple[Kernel, ...] = (PORTABLE.kernel(Prelu, calls_prelu, all_int8, in_place=in_place),)
