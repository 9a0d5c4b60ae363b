# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of divisions by a tensor."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import check_all_int8
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.emitters.c.strides import as_int32_array, broadcast_steps, collapsed, few_axes
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Shape
from pillion.ops.div import Div, reciprocals


def params(op: Div, arithmetic: Arithmetic) -> Params:
    """Returns the parameters of a division in the graph's arithmetic."""
    extent, (a_step, b_step) = quotient_axes(op)
    walk: Params = {"elements": op.y.type.elements, "axes": len(extent)}
    walk = {
        **walk,
        "extent": as_int32_array(extent),
        "a_step": as_int32_array(a_step),
        "b_step": as_int32_array(b_step),
    }
    if arithmetic.is_tflite:
        return {**walk, "reciprocals": as_int32_array(reciprocals())}
    return {**walk, "ratio": np.array([op.ratio], np.float32)}


def quotient_axes(op: Div) -> tuple[Shape, list[Shape]]:
    """Returns the merged axes of the result, and the operands' steps along them."""
    return collapsed(op.y.shape, [broadcast_steps(v.shape, op.y.shape) for v in (op.a, op.b)])


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(
        Div,
        lambda op, arithmetic: "div_tflite_s8" if arithmetic.is_tflite else "div_s8",
        params,
        requires=(check_all_int8, lambda op: few_axes(len(quotient_axes(op)[0]))),
        in_place="a b",
    ),
)
