# SPDX-License-Identifier: Apache-2.0
"""The portable kernel of norms."""

from __future__ import annotations

import math

import numpy as np

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import INT8_XY, dtypes
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.ir.types import DType
from pillion.ops.normalize import Normalize


def params(op: Normalize) -> Params:
    """Returns the parameters of all norm kernels."""
    factors, offsets = op.factors_and_offsets()
    return {
        "rows": math.prod(op.x.shape[: op.axis]),
        "positions": math.prod(op.x.shape[op.axis : -1]),
        **{"inner": op.x.shape[-1] // op.groups, "centred": int(op.centred)},
        **dict(zip(("low", "high"), op.bounds, strict=True)),
        "each_channel": int(len(factors) > 1),
        **{"factors": factors.astype(np.int32), "offsets": offsets.astype(np.int32)},
    }


def int64_fields(number: int, name: str) -> Params:
    """Returns a 64-bit number as two int32 fields."""
    low = number & 0xFFFFFFFF
    return {f"{name}_high": number >> 32, f"{name}_low": low - (1 << 32) if low >> 31 else low}


INT16_TO_INT8 = (dtypes("x", DType.INT16), dtypes("y", DType.INT8))
"""A norm maps int16 to int8."""

KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(Normalize, "normalize_s8", params, requires=(INT8_XY,), in_place="x"),
    PORTABLE.kernel(Normalize, "normalize_s16", params, requires=INT16_TO_INT8, name="normalize_wide"),
    PORTABLE.kernel(
        Normalize,
        "normalize_s16_s16",
        params,
        requires=(dtypes("x y", DType.INT16),),
        in_place="x",
        name="normalize_fine",
    ),
)
