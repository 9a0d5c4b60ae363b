# SPDX-License-Identifier: Apache-2.0
"""Sums, products, quantization and dequantization on cores without SIMD, by the formulas of the DSP kernels."""

from __future__ import annotations

from pillion.emitters.c.dsp import elementwise as dsp
from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_library import SCALAR
from pillion.emitters.c.portable.elementwise import calls_dequantize, calls_quantize, check_dequantize
from pillion.emitters.c.table_lookup import in_place_unary
from pillion.ops.elementwise import Add, Mul, Sub
from pillion.ops.formats import Dequantize, Quantize

SUM = SCALAR.port(dsp.calls_sum)

KERNELS: tuple[Kernel, ...] = (
    SCALAR.kernel(Add, SUM, dsp.check_sum, name="sum", in_place=dsp.in_place_full),
    SCALAR.kernel(Sub, SUM, dsp.check_sum, name="sum", in_place=dsp.in_place_full),
    SCALAR.kernel(Mul, SCALAR.port(dsp.calls_mul), dsp.check_mul, name="mul", in_place=dsp.in_place_full),
    SCALAR.kernel(
        Quantize, SCALAR.port(calls_quantize), dsp.check_quantize, name="quantize", in_place=in_place_unary
    ),
    SCALAR.kernel(Dequantize, SCALAR.port(calls_dequantize), check_dequantize, name="dequantize"),
)
