# SPDX-License-Identifier: Apache-2.0
"""The kernels of cascades of biquads."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import has_dtypes
from pillion.emitters.c.kernel_library import DSP, MVE, PORTABLE
from pillion.ir.types import DType
from pillion.ops import Biquads


def params(op: Biquads) -> Params:
    """Returns the parameters of a cascade."""
    signals, samples = op.x.shape
    return {
        **{"signals": signals, "samples": samples, "sections": op.sections},
        "fraction": op.fraction,
        "coefficients": np.concatenate([op.levels, op.feedback], axis=1).astype(np.int32),
    }


KERNELS: tuple[Kernel, ...] = tuple(
    library.kernel(
        Biquads, "biquads_s16", params, requires=(has_dtypes("x past y", DType.INT16),), name="biquads"
    )
    for library in (PORTABLE, DSP, MVE)
)
