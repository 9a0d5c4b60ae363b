# SPDX-License-Identifier: Apache-2.0
"""The DSP kernels (Cortex-M4, -M7, -M33): which ops each variant takes, with what constants and how much scratch."""

from __future__ import annotations

from pillion.emitters.c import (
    matmul,
    sums,
    transpose_conv,
)
from pillion.emitters.c.dsp import (
    elementwise as dsp_elementwise,
)
from pillion.emitters.c.dsp import (
    products as dsp_products,
)
from pillion.emitters.c.kernel import Kernel, Routine

KERNELS: tuple[Kernel, ...] = (
    *dsp_products.KERNELS,
    transpose_conv.DSP_KERNEL,
    matmul.DSP_KERNEL,
    *sums.DSP_KERNELS,
    *dsp_elementwise.KERNELS,
)
ROUTINES: tuple[Routine, ...] = (
    *dsp_products.ROUTINES,
    transpose_conv.DSP,
    matmul.DSP,
    sums.DSP,
    *dsp_elementwise.ROUTINES,
)
