# SPDX-License-Identifier: Apache-2.0
"""The kernels of statistics of windows."""

from __future__ import annotations

import math

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import INT8_XY, INT16_XY
from pillion.emitters.c.kernel_library import DSP, MVE, PORTABLE
from pillion.ops.window_statistic import Statistic, WindowStatistic


def params(op: WindowStatistic) -> Params:
    """Returns the parameters of all kernels."""
    low, high = op.y.dtype.bounds
    windows, statistic = math.prod(op.x.shape[:-1]), list(Statistic).index(op.statistic)
    return {"windows": windows, "statistic": statistic, "low": low, "high": high}


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(WindowStatistic, "window_statistic_s8", params, requires=(INT8_XY,)),
    *(
        library.kernel(WindowStatistic, "window_statistic_s16", params, requires=(INT16_XY,))
        for library in (PORTABLE, DSP, MVE)
    ),
)
