# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of divisions by a tensor."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.kernel import Call, Kernel, Params, scaling
from pillion.emitters.c.kernel_conditions import all_int8, same_shape
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.emitters.c.strides import broadcast_steps, collapsed, few_axes, numbers
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Shape, Value
from pillion.ir.verdict import Verdict
from pillion.ops.div import Div, reciprocals


def calls_div(op: Div, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a division in the graph's arithmetic."""
    extent, (a_step, b_step) = quotient_axes(op)
    walk: Params = {"elements": op.y.type.elements, "axes": len(extent)}
    walk = {**walk, "extent": numbers(extent), "a_step": numbers(a_step), "b_step": numbers(b_step)}
    levels = {
        "a_zp": op.a.zero_point,
        "b_zp": op.b.zero_point,
        "out_zp": op.y.zero_point,
        "low": op.low,
        "high": op.high,
    }
    if arithmetic.is_tflite:
        fixed: Params = {**walk, "reciprocals": numbers(reciprocals()), **levels, **scaling(op.multiplier)}
        return (Call(PORTABLE.routine("div_tflite_s8"), fixed, (op.a, op.b), op.y),)
    real: Params = {**walk, **levels, "ratio": np.array([op.ratio], np.float32)}
    return (Call(PORTABLE.routine("div_s8"), real, (op.a, op.b), op.y),)


def quotient_axes(op: Div) -> tuple[Shape, list[Shape]]:
    """Returns the merged axes of the result, and the operands' steps along them."""
    return collapsed(op.y.shape, [broadcast_steps(v.shape, op.y.shape) for v in (op.a, op.b)])


def check(op: Div, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks the element types of a division and the number of its axes."""
    return (*all_int8(op), *few_axes(len(quotient_axes(op)[0])))


def in_place(op: Div) -> tuple[Value, ...]:
    """Returns the operands whose memory the result may overwrite."""
    return same_shape(op, op.a, op.b)


KERNELS: tuple[Kernel, ...] = (PORTABLE.kernel(Div, calls_div, check, in_place=in_place),)
