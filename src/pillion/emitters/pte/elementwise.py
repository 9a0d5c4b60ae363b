# SPDX-License-Identifier: Apache-2.0
"""Rows for elementwise ops of one or two operands, and for quantize and dequantize."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pillion.emitters.pte.node import (
    KernelCall,
    NodeView,
    PteSettings,
    constant_view,
    contiguous_view,
    no_exact_kernel_error,
    result_bounds,
    temporary_tensor,
)
from pillion.ir.numerics import Multiplier
from pillion.ir.op import Op
from pillion.ir.types import Array, DType, Shape, Value
from pillion.ops import Add, Clamp, Dequantize, Lut, Maximum, Minimum, Mul, Quantize, Requantize, Sub
from pillion.ops.elementwise import Binary
from pillion.schemas.pte import ScalarType

MOST_AXES = 4
"""The most axes along which the kernels for extrema broadcast an operand."""
ONE_HALF = Multiplier(2**30, 0)
LEVELS = np.arange(-128, 128, dtype=np.int8)
"""The int8 inputs of a lookup table's entries."""


def lower_unary_function(op: Lut | Clamp | Requantize, settings: PteSettings) -> list[KernelCall]:
    """Returns the lookup of a function from int8 to int8."""
    if isinstance(op, Requantize):
        return [_requantize_lookup(op, settings)]
    if op.x.dtype is not DType.INT8:
        raise no_exact_kernel_error(op, "functions are of int8", repr(op.x), "quantize the model")
    entries = (
        op.entries(settings.arithmetic) if isinstance(op, Lut) else op.reference(settings.arithmetic, LEVELS)
    )
    return [lookup(contiguous_view(op.x), entries, contiguous_view(op.y))]


def _requantize_lookup(op: Requantize, settings: PteSettings) -> KernelCall:
    """Returns a lookup by the stored byte: the kernel treats uint8 as int8."""
    entries = op.reference(settings.arithmetic, LEVELS.view(op.x.dtype.numpy))
    x, y = (replace(contiguous_view(v), dtype=DType.INT8) for v in (op.x, op.y))
    return lookup(x, entries.view(np.int8), y)


def lookup(x: NodeView, entries: Array, y: NodeView) -> KernelCall:
    """Returns the call of a lookup table with an entry for every int8 number."""
    return KernelCall("cortex_m::quantized_activation.out", (x, constant_view(entries.astype(np.int8))), y)


def result_clamp_calls(op: Op) -> list[KernelCall]:
    """Returns an in-place clamp for an op with bounds whose kernel has none."""
    y, (low, high) = contiguous_view(op.results[0]), result_bounds(op)
    return [] if (low, high) == (-128, 127) else [lookup(y, np.clip(LEVELS, low, high), y)]


def quantize(op: Quantize, settings: PteSettings) -> list[KernelCall]:
    """Returns the call of a quantization; the runtime supports one arithmetic only."""
    if settings.arithmetic.is_tflite:
        raise no_exact_kernel_error(
            op,
            "quantizing multiplies by the reciprocal and rounds ties to even",
            f"`{settings.arithmetic.value}` arithmetic",
            "--io-dtype int8, or --arithmetic cmsis-nn",
        )
    return [_quantization_call("cortex_m::quantize_per_tensor.out", op.x, op.y, op.y)]


def dequantize(op: Dequantize, settings: PteSettings) -> list[KernelCall]:
    """Returns the call of a dequantization."""
    if op.x.dtype is not DType.INT8:
        raise no_exact_kernel_error(op, "what is dequantized is int8 with one scale", repr(op.x))
    return [_quantization_call("cortex_m::dequantize_per_tensor.out", op.x, op.y, op.x)]


def _quantization_call(operator: str, x: Value, y: Value, levels: Value) -> KernelCall:
    args = (contiguous_view(x), levels.scale, levels.zero_point, -128, 127, int(ScalarType.INT8))
    return KernelCall(operator, args, contiguous_view(y))


def add(op: Add, settings: PteSettings) -> list[KernelCall]:
    """Returns the calls of a sum, or a lookup if one operand is a constant number."""
    return scalar_binary_lookup(op, settings) or _quantized_add_calls(
        op, contiguous_view(op.a), op.a.zero_point, contiguous_view(op.b), op.b.zero_point
    )


def sub(op: Sub, settings: PteSettings) -> list[KernelCall]:
    """Returns the calls of a - b as a sum. An int8 number q is mirrored to -1 - q, and its zero point z to -1
    - z. Requantization is asymmetric for ties, so only the operand of the larger scale is mirrored: its ratio
    to the common scale is exactly one half and has no ties. If that is a, the sum is b - a with a negated
    multiplier."""
    if table := scalar_binary_lookup(op, settings):
        return table
    mirror_b, mirror_a = (m == ONE_HALF for m in op.rescale[1::-1])
    if not (mirror_b or mirror_a):
        raise no_exact_kernel_error(
            op, "the multiplier of an operand is one half", f"{op.rescale[0]}, {op.rescale[1]}"
        )
    calls, mirrored = _invert_levels(op.b if mirror_b else op.a)
    if mirror_b:
        return [
            *calls,
            *_quantized_add_calls(op, contiguous_view(op.a), op.a.zero_point, mirrored, -1 - op.b.zero_point),
        ]
    if op.rescale[2].shift > 2:
        raise no_exact_kernel_error(
            op,
            "the result's scale is not far below the operands': its multiplier shifts by at most 2",
            op.rescale[2].shift,
        )
    return [
        *calls,
        *_quantized_add_calls(
            op, mirrored, -1 - op.a.zero_point, contiguous_view(op.b), op.b.zero_point, sign=-1
        ),
    ]


def _invert_levels(x: Value) -> tuple[list[KernelCall], NodeView]:
    if x.is_constant:
        return [], constant_view(np.invert(x.constant))
    y = temporary_tensor(x.shape)
    return [lookup(contiguous_view(x), np.invert(LEVELS), y)], y


def _quantized_add_calls(
    op: Add | Sub, a: NodeView, a_zero: int, b: NodeView, b_zero: int, sign: int = 1
) -> list[KernelCall]:
    first, second, out = op.rescale
    calls, a, b, y = channel_broadcast_operands(a, b, contiguous_view(op.y))
    args = (
        *(a, a_zero, first.mantissa, first.shift),
        *(b, b_zero, second.mantissa, second.shift),
        *(op.y.zero_point, sign * out.mantissa, out.shift, *result_bounds(op)),
    )
    return [*calls, KernelCall("cortex_m::quantized_add.out", args, y)]


def mul(op: Mul, settings: PteSettings) -> list[KernelCall]:
    """Returns the calls of a product, or a lookup if one operand is a constant number."""
    if table := scalar_binary_lookup(op, settings):
        return table
    m: Multiplier = op.multiplier(settings.arithmetic)
    calls, a, b, y = channel_broadcast_operands(
        contiguous_view(op.a), contiguous_view(op.b), contiguous_view(op.y)
    )
    args = (a, op.a.zero_point, b, op.b.zero_point, op.y.zero_point, m.mantissa, m.shift)
    return [*calls, KernelCall("cortex_m::quantized_mul.out", args, y), *result_clamp_calls(op)]


def extremum(op: Minimum | Maximum, settings: PteSettings) -> list[KernelCall]:
    """Returns the calls of a minimum or maximum, or a lookup if one operand is a constant number."""
    if table := scalar_binary_lookup(op, settings):
        return table
    if op.y.dtype is not DType.INT8:
        raise no_exact_kernel_error(op, "operands are int8", repr(op.a), "quantize the model")
    calls, a, b, y = _broadcast_operands(
        contiguous_view(op.a), contiguous_view(op.b), contiguous_view(op.y), MOST_AXES
    )
    return [*calls, KernelCall(f"cortex_m::{op.kind}.out", (a, b), y)]


def scalar_binary_lookup(op: Binary, settings: PteSettings) -> list[KernelCall]:
    """Returns the lookup of a binary op with a constant number as operand; empty without one."""
    for number, operand, swap in ((op.b, op.a, False), (op.a, op.b, True)):
        if number.is_constant and number.type.elements == 1 and operand.type.elements == op.y.type.elements:
            level = number.constant.reshape(1)
            operands = (level, LEVELS) if swap else (LEVELS, level)
            return [
                lookup(
                    contiguous_view(operand),
                    op.reference(settings.arithmetic, *operands),
                    contiguous_view(op.y).reshaped(*operand.shape),
                )
            ]
    return []


Operands = tuple[list[KernelCall], NodeView, NodeView, NodeView]


def channel_broadcast_operands(a: NodeView, b: NodeView, y: NodeView) -> Operands:
    """Returns operands for kernels that broadcast only a vector over the channels of an image: the last axes
    of the larger operand become channels."""
    return _broadcast_operands(a, b, y, None)


def _broadcast_operands(a: NodeView, b: NodeView, y: NodeView, most_axes: int | None) -> Operands:
    """Returns operands of the same rank: as vectors if their shapes are equal, broadcast by the kernel along
    at most `most_axes` axes (None: over channels alone), otherwise expanded by calls."""
    if a.elements == b.elements == y.elements:
        return [], view_as_vector(a), view_as_vector(b), view_as_vector(y)
    a, b = (_expand_to_rank(view, len(y.sizes)) for view in (a, b))
    for small, full, swap in ((b, a, False), (a, b, True)):
        few, all_of_them = _merge_broadcast_axes(small.sizes, y.sizes)
        if full.sizes != y.sizes:
            continue
        if most_axes is None and few in ((1,), (1, few[-1])):
            rows, channels = y.elements // small.elements, small.elements
            vector, whole = small.image(1, 1, 1, channels), full.image(1, rows, 1, channels)
            return [], *((vector, whole) if swap else (whole, vector)), y.image(1, rows, 1, channels)
        if most_axes is not None and len(few) <= most_axes:
            first, second = full.reshaped(*all_of_them), small.reshaped(*few)
            return [], *((second, first) if swap else (first, second)), y.reshaped(*all_of_them)
    calls: list[KernelCall] = []
    a, b = (expanded_operand(view, y.sizes, calls) for view in (a, b))
    return calls, view_as_vector(a), view_as_vector(b), view_as_vector(y)


def _merge_broadcast_axes(small: Shape, full: Shape) -> tuple[Shape, Shape]:
    """Returns both shapes with neighbouring axes merged if both are broadcast, or neither. The library fails
    if an operand is broadcast along the last two axes but not the one before."""
    few: list[int] = []
    all_of_them: list[int] = []
    for extent, size in zip(small, full, strict=True):
        if size == 1:
            continue
        if few and (few[-1] == 1) == (extent == 1):
            few[-1], all_of_them[-1] = few[-1] * extent, all_of_them[-1] * size
        else:
            few.append(extent)
            all_of_them.append(size)
    return tuple(few), tuple(all_of_them)


def view_as_vector(view: NodeView) -> NodeView:
    """Returns a view as a vector."""
    return view.reshaped(view.elements)


def _expand_to_rank(view: NodeView, rank: int) -> NodeView:
    return view.reshaped(*(1,) * (rank - len(view.sizes)), *view.sizes)


def expanded_operand(view: NodeView, shape: Shape, calls: list[KernelCall]) -> NodeView:
    """Returns an operand in a given shape; an expansion is added to the calls."""
    if view.sizes == shape:
        return view
    expanded = temporary_tensor(shape, view.dtype)
    calls.append(KernelCall("aten::expand_copy.out", (view, shape, False), expanded))
    return expanded
