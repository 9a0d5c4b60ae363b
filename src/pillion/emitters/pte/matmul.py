# SPDX-License-Identifier: Apache-2.0
"""Rows for matrix products, quotients, and leaky relus with a slope per channel."""

from __future__ import annotations

import numpy as np

from pillion.devices.cortex_m import Isa
from pillion.emitters.pte import scratch
from pillion.emitters.pte.elementwise import (
    LEVELS,
    channel_broadcast_operands,
    expanded_operand,
    lookup,
    result_clamp_calls,
    scalar_binary_lookup,
)
from pillion.emitters.pte.movement import transposition_calls
from pillion.emitters.pte.node import (
    KernelCall,
    NodeView,
    PteSettings,
    constant_view,
    contiguous_view,
    no_exact_kernel_error,
    scratch_argument,
    temporary_tensor,
)
from pillion.ir.numerics import clamp_to_int8, requantize
from pillion.ir.types import Value
from pillion.ops import BatchMatmul, Div, Prelu


def batch_matmul(op: BatchMatmul, settings: PteSettings) -> list[KernelCall]:
    """Returns the calls of a matrix product. The kernel needs b as [B, N, K], and negated zero points of the
    operands."""
    calls: list[KernelCall] = []
    a = _transpose_last_axes(op.a, calls, settings.isa) if op.adj_x else contiguous_view(op.a)
    b = contiguous_view(op.b) if op.adj_y else _transpose_last_axes(op.b, calls, settings.isa)
    m = op.multiplier(settings.arithmetic)
    need = scratch_argument(scratch.batch_matmul_scratch_bytes(op.columns, settings.isa))
    args = (a, -op.a.zero_point, b, -op.b.zero_point, op.y.zero_point, m.mantissa, m.shift, need)
    return [
        *calls,
        KernelCall("cortex_m::quantized_batch_matmul.out", args, contiguous_view(op.y)),
        *result_clamp_calls(op),
    ]


def _transpose_last_axes(value: Value, calls: list[KernelCall], isa: Isa) -> NodeView:
    """Returns the operand with its last two axes exchanged; constants at compile time."""
    if value.is_constant:
        return constant_view(value.constant.swapaxes(1, 2))
    batch, rows, columns = value.shape
    moved = temporary_tensor((batch, columns, rows), value.dtype)
    if 1 in (rows, columns):
        return contiguous_view(value).reshaped(batch, columns, rows)
    calls += transposition_calls(contiguous_view(value), (0, 2, 1), moved, isa)
    return moved


def div(op: Div, settings: PteSettings) -> list[KernelCall]:
    """Returns the call of a division, which only newer runtimes support, or a lookup with a constant
    number."""
    if table := scalar_binary_lookup(op, settings):
        return table
    if settings.runtime == "1.4" or settings.arithmetic.is_tflite:
        raise no_exact_kernel_error(
            op,
            "the runtime's library divides: that of ExecuTorch 1.5 does, that of 1.4 does not; `tflite` arithmetic neither",
            f"runtime {settings.runtime}, `{settings.arithmetic.value}` arithmetic",
            "--runtime 1.5, --kernels pillion, or write C: -o folder/",
        )
    calls: list[KernelCall] = []
    a, b = (
        expanded_operand(contiguous_view(v), op.y.shape, calls).reshaped(op.y.type.elements)
        for v in (op.a, op.b)
    )
    args = (a, op.a.zero_point, b, op.b.zero_point, op.y.zero_point, op.ratio)
    y = contiguous_view(op.y).reshaped(op.y.type.elements)
    return [*calls, KernelCall("cortex_m::quantized_div.out", args, y), *result_clamp_calls(op)]


def prelu(op: Prelu, settings: PteSettings) -> list[KernelCall]:
    """Returns the calls of a leaky relu. One slope is a lookup. Several slopes are a lookup for non-negative numbers
    and a product for negative ones. Each is zero where the other is not, and their sum at one scale rounds
    nothing."""
    if op.slope.is_constant and op.slope.type.elements == 1:
        entries = op.reference(settings.arithmetic, LEVELS, op.slope.constant.reshape(1))
        return [lookup(contiguous_view(op.x), entries, contiguous_view(op.y))]
    plain_m, sloped_m = op.multipliers(settings.arithmetic)
    positive, negative, product = (temporary_tensor(op.x.shape) for _ in range(3))
    levels = LEVELS.astype(np.int64) - op.x.zero_point
    nonnegative = requantize(np.maximum(levels, 0), plain_m.mantissa, plain_m.shift) + op.y.zero_point
    calls = [
        lookup(contiguous_view(op.x), clamp_to_int8(nonnegative, -128, 127), positive),
        lookup(contiguous_view(op.x), np.minimum(LEVELS, op.x.zero_point), negative),
    ]
    first, a, b, y = channel_broadcast_operands(
        negative, contiguous_view(op.slope).reshaped(*op.slope_shape), product
    )
    args = (a, op.x.zero_point, b, op.slope.zero_point, op.y.zero_point, sloped_m.mantissa, sloped_m.shift)
    calls += [*first, KernelCall("cortex_m::quantized_mul.out", args, y)]
    return [*calls, _same_scale_sum_call(positive, product, op.y)]


def _same_scale_sum_call(a: NodeView, b: NodeView, y: Value) -> KernelCall:
    """Returns a + b of one scale: both are halved with 20 bits of headroom, and the sum is scaled back
    exactly."""
    operand = (y.zero_point, 2**30, 0)
    args = (a, *operand, b, *operand, y.zero_point, 2**30, -18, -128, 127)
    return KernelCall("cortex_m::quantized_add.out", args, contiguous_view(y))
