# SPDX-License-Identifier: Apache-2.0
"""Sums and products of two tensors on cores without SIMD, by the formulas of the DSP kernels."""

from __future__ import annotations

from pillion.emitters.c.dsp import elementwise as dsp
from pillion.emitters.c.kernel import Call, Kernel, Routine
from pillion.emitters.c.library import SCALAR
from pillion.ir.numerics import Arithmetic
from pillion.ops.elementwise import Add, Mul, Sub, Sum

SUM, MUL = SCALAR.routine("sum_s8"), SCALAR.routine("mul_s8")
ROUTINES: tuple[Routine, ...] = (SUM, MUL)


def calls_sum(op: Sum, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the sum kernel."""
    return tuple(Call(SUM, call.params, call.inputs, call.output) for call in dsp.calls_sum(op, arithmetic))


def calls_mul(op: Mul, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the product kernel."""
    return tuple(Call(MUL, call.params, call.inputs, call.output) for call in dsp.calls_mul(op, arithmetic))


KERNELS: tuple[Kernel, ...] = (
    SCALAR.row(Add, calls_sum, dsp.judge_sum, name="sum", in_place=dsp.in_place_of_whole),
    SCALAR.row(Sub, calls_sum, dsp.judge_sum, name="sum", in_place=dsp.in_place_of_whole),
    SCALAR.row(Mul, calls_mul, dsp.judge_mul, name="mul", in_place=dsp.in_place_of_whole),
)
