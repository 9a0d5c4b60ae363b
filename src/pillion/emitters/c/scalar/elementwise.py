# SPDX-License-Identifier: Apache-2.0
"""Sums, products, quantization and dequantization on cores without SIMD, by the formulas of the DSP kernels."""

from __future__ import annotations

from pillion.emitters.c.dsp import elementwise as dsp
from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_library import SCALAR
from pillion.ops.elementwise import Add, Sub

KERNELS: tuple[Kernel, ...] = (
    dsp.sum_kernel(SCALAR, Add),
    dsp.sum_kernel(SCALAR, Sub),
    dsp.mul_kernel(SCALAR),
    dsp.quantize_kernel(SCALAR),
    dsp.dequantize_kernel(SCALAR),
)
