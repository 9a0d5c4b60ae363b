# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of layers with 8-bit operands and 16-bit results."""

from __future__ import annotations

from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_conditions import short_circuit
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.layers16 import WIDENS
from pillion.emitters.c.mve import pack
from pillion.emitters.c.mve.layers16 import (
    IM2COL,
    POINTWISE,
    im2col_params,
    pointwise_params,
    rows_params,
)
from pillion.ops.conv import Conv2d
from pillion.ops.linear import Linear

DOT = "dot_s8_s16"
ROWS = MVE.routine("conv2d_1x1_s8_s16", "pointwise", DOT)

KERNELS: tuple[Kernel, ...] = (
    MVE.kernel(
        Conv2d,
        ROWS,
        pointwise_params,
        requires=(short_circuit(WIDENS, pack.pixels_are_windows),),
        name="conv2d_1x1_8_16",
        **POINTWISE,
    ),
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_im2col_s8_s16", "im2col", DOT),
        im2col_params,
        requires=(short_circuit(WIDENS, pack.is_ungrouped),),
        name="conv2d_im2col_8_16",
        work=pack.im2col_work,
        **IM2COL,
    ),
    MVE.kernel(
        Linear, ROWS, rows_params, requires=(WIDENS,), name="linear_rows_8_16", **POINTWISE
    ),
)
