# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels (Cortex-M55, -M85): which ops each variant takes, with what constants and how much scratch."""

from __future__ import annotations

from pillion.emitters.c import (
    matmul,
    sums,
    transpose_conv,
)
from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.mve import (
    elementwise as mve_elementwise,
)
from pillion.emitters.c.mve import (
    products as mve_products,
)

KERNELS: tuple[Kernel, ...] = (
    *mve_products.KERNELS,
    transpose_conv.MVE_KERNEL,
    matmul.MVE_KERNEL,
    *sums.MVE_KERNELS,
    *mve_elementwise.KERNELS,
)
