# SPDX-License-Identifier: Apache-2.0
"""The kernels for cores without SIMD (Cortex-M0, -M0+, -M1, -M3, -M23)."""

from __future__ import annotations

from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.scalar import conv, depthwise, elementwise

FAMILIES = (conv, depthwise, elementwise)

KERNELS: tuple[Kernel, ...] = tuple(kernel for family in FAMILIES for kernel in family.KERNELS)
