# SPDX-License-Identifier: Apache-2.0
"""The portable kernel of PReLU, a leaky ReLU with a tensor of slopes."""

from __future__ import annotations

import math

from pillion.emitters.c.kernel import Kernel, Params, multiplier_params
from pillion.emitters.c.kernel_conditions import check_all_int8
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.ir.numerics import Arithmetic
from pillion.ops.prelu import Prelu


def params(op: Prelu, arithmetic: Arithmetic) -> Params:
    """Returns the parameters of a PReLU."""
    axis = next((i for i, size in enumerate(op.slope_shape) if size > 1), 0)
    slopes = op.slope.type.elements
    plain, sloped = op.multipliers(arithmetic)
    return {
        "outer": math.prod(op.x.shape[:axis]) if slopes > 1 else 1,
        "slopes": slopes,
        "inner": math.prod(op.x.shape[axis + 1 :]) if slopes > 1 else op.x.type.elements,
        **{**multiplier_params(plain), "slope_multiplier": sloped.mantissa, "slope_shift": sloped.shift},
    }


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(Prelu, "prelu_s8", params, requires=(check_all_int8,), in_place="x"),
)
