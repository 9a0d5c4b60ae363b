# SPDX-License-Identifier: Apache-2.0
"""The kernels for cores with the DSP extension (Cortex-M4, -M7, -M33)."""

from __future__ import annotations

from pillion.emitters.c.dsp import conv, depthwise, elementwise, linear, matmul, normalize, recurrent, reduce
from pillion.emitters.c.kernel import Kernel

FAMILIES = (conv, depthwise, linear, matmul, reduce, elementwise, normalize, recurrent)

KERNELS: tuple[Kernel, ...] = tuple(kernel for family in FAMILIES for kernel in family.KERNELS)
