# SPDX-License-Identifier: Apache-2.0
"""The kernels of PReLU, a leaky ReLU with a tensor of slopes."""

from __future__ import annotations

import math

from pillion.emitters.c.kernel import Kernel, Params, multiplier_params
from pillion.emitters.c.kernel_conditions import check_all_int8, has_dtypes
from pillion.emitters.c.kernel_library import MVE, PORTABLE
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType
from pillion.ir.verdict import Verdict
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


def slopes_in_rows(op: Prelu) -> Verdict:
    """Checks whether the op has one slope, or one per element along the last axis."""
    in_rows = op.slope.type.elements == op.slope_shape[-1]
    got = f"{list(op.slope.shape)} for {list(op.x.shape)}"
    return Verdict("slopes", in_rows, "along the last axis", got)


def mve_params(op: Prelu, arithmetic: Arithmetic) -> Params:
    """Returns the parameters of a PReLU."""
    count = op.slope.type.elements
    scales = {
        f"{prefix}{name}": number
        for prefix, m in zip(("", "slope_"), op.multipliers(arithmetic), strict=True)
        for name, number in (
            *(("multiplier", m.mantissa), ("right", min(m.shift, 0)), ("left", max(m.shift, 0))),
            ("fix", int(m.shift < 0)),
        )
    }
    return {"rows": op.x.type.elements // count, "count": count, **scales}


ALONG_LAST_AXIS = (has_dtypes("x slope y", DType.INT8), slopes_in_rows)
KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(Prelu, "prelu_s8", params, requires=(check_all_int8,), in_place="x"),
    MVE.kernel(Prelu, "prelu_s8", mve_params, requires=ALONG_LAST_AXIS, in_place="x"),
)
