# SPDX-License-Identifier: Apache-2.0
"""Sums and products of two tensors on cores without SIMD, by the formulas of the DSP kernels, and the way from and to float32."""

from __future__ import annotations

from dataclasses import replace

from pillion.emitters.c.dsp import elementwise as dsp
from pillion.emitters.c.kernel import Call, Kernel, Routine
from pillion.emitters.c.library import SCALAR
from pillion.emitters.c.portable.elementwise import judge_dequantized, same_operand
from pillion.ir.numerics import Arithmetic
from pillion.ops.elementwise import Add, Mul, Sub, Sum
from pillion.ops.formats import Dequantize, Quantize

SUM, MUL = SCALAR.routine("sum_s8"), SCALAR.routine("mul_s8")
QUANTIZE, DEQUANTIZE = SCALAR.routine("quantize_s8"), SCALAR.routine("dequantize_s8")
ROUTINES: tuple[Routine, ...] = (SUM, MUL, QUANTIZE, DEQUANTIZE)


def calls_sum(op: Sum, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the sum kernel."""
    return tuple(Call(SUM, call.params, call.inputs, call.output) for call in dsp.calls_sum(op, arithmetic))


def calls_mul(op: Mul, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the product kernel."""
    return tuple(Call(MUL, call.params, call.inputs, call.output) for call in dsp.calls_mul(op, arithmetic))


def calls_quantize(op: Quantize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the kernel that makes float32 int8."""
    return tuple(replace(call, routine=QUANTIZE) for call in dsp.calls_quantize(op, arithmetic))


def calls_dequantize(op: Dequantize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the kernel that makes int8 float32."""
    return tuple(replace(call, routine=DEQUANTIZE) for call in dsp.calls_dequantize(op, arithmetic))


KERNELS: tuple[Kernel, ...] = (
    SCALAR.row(Add, calls_sum, dsp.judge_sum, name="sum", in_place=dsp.in_place_of_whole),
    SCALAR.row(Sub, calls_sum, dsp.judge_sum, name="sum", in_place=dsp.in_place_of_whole),
    SCALAR.row(Mul, calls_mul, dsp.judge_mul, name="mul", in_place=dsp.in_place_of_whole),
    SCALAR.row(Quantize, calls_quantize, dsp.takes_quantize, name="quantize", in_place=same_operand),
    SCALAR.row(Dequantize, calls_dequantize, judge_dequantized, name="dequantize"),
)
