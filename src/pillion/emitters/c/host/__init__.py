# SPDX-License-Identifier: Apache-2.0
"""The kernels for x86 processors with AVX2, on which `--native` runs programs faster. No product contains them."""

from __future__ import annotations

from pillion.emitters.c.host import conv, elementwise
from pillion.emitters.c.kernel import Kernel

FAMILIES = (conv, elementwise)

KERNELS: tuple[Kernel, ...] = tuple(kernel for family in FAMILIES for kernel in family.KERNELS)
