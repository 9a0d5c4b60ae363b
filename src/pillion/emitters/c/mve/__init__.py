# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels (Cortex-M55, -M85): which ops each variant takes, with what constants and how much scratch."""

from __future__ import annotations

from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.mve import (
    choosing,
    conv,
    elementwise,
    matmul,
    recurrent,
    reduce,
    resize,
    standardize,
    transpose_conv,
)

FAMILIES = (conv, transpose_conv, matmul, reduce, elementwise, resize, standardize, recurrent, choosing)

KERNELS: tuple[Kernel, ...] = tuple(kernel for family in FAMILIES for kernel in family.KERNELS)
