# SPDX-License-Identifier: Apache-2.0
"""The kernels for cores with Helium (Cortex-M55, -M85)."""

from __future__ import annotations

from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.mve import (
    compare_select,
    conv,
    elementwise,
    matmul,
    normalize,
    recurrent,
    reduce,
    resize,
)

FAMILIES = (conv, matmul, reduce, elementwise, resize, normalize, recurrent, compare_select)

KERNELS: tuple[Kernel, ...] = tuple(kernel for family in FAMILIES for kernel in family.KERNELS)
