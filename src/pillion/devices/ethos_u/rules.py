# SPDX-License-Identifier: Apache-2.0
"""The rules of Ethos-U, one row per rule: its ops, its limit and its source.

Sources: "Vela" is its report of supported operators; "tried" is behaviour beyond that report, found by compiling each limit and
one past it; "stream" excludes shapes of reductions that Vela's command streams compute incorrectly."""

from __future__ import annotations

from pillion import ops
from pillion.devices import predicates
from pillion.devices.device import NpuRule, RuleRow, rules_from
from pillion.devices.ethos_u import limits, limits_u85
from pillion.devices.ethos_u.accelerators import Family
from pillion.devices.op_groups import CONVOLUTIONS, EXTREMES, MOVES, PAIRS, POOLS, RESIZES, SHARED, WEIGHTED
from pillion.ir.op import Op

VELA, TRIED, STREAM = "Vela", "tried", "stream"

SAME = (*SHARED, *RESIZES)
SIXTEEN_BITS: tuple[type[Op], ...] = (
    *(*WEIGHTED, *PAIRS, ops.Requantize, ops.Mean),
    *(*POOLS, *EXTREMES, *RESIZES, ops.Concat, *MOVES),
)
"""Ops in 16 bits, computed as LiteRT does, in command streams that are executed here; U85 also multiplies matrices."""
SUPPORTED: tuple[type[Op], ...] = (
    *(*WEIGHTED, ops.BatchMatmul, ops.Add, ops.Sub, ops.Mul, ops.Lut, ops.Prelu, ops.Clamp, ops.Softmax),
    *(ops.Mean, ops.ReduceSum, ops.Requantize, *SAME),
)


OF_8_BITS = tuple(op for op in SUPPORTED if op not in (*SIXTEEN_BITS, ops.BatchMatmul))


def rules(family: Family) -> tuple[NpuRule, ...]:
    """Returns all rules for a family. U55 and U65 have the same; reductions that their command streams
    compute incorrectly are excluded on U85, too."""
    return rules_from((*TENSORS, *(U85 if family is Family.U85 else U55), *OTHERS))


TENSORS: tuple[RuleRow, ...] = (
    (OF_8_BITS, "dtype", predicates.int8_activations, VELA),
    (SIXTEEN_BITS, "dtype", predicates.int8_or_int16_activations, STREAM),
    (SUPPORTED, "shape", limits.supported_shapes, VELA),
    (SAME, "parameters", predicates.same_quantization, VELA),
    (PAIRS, "broadcast", limits.supported_broadcast, STREAM),
    (WEIGHTED, "constants", predicates.constant_weights, VELA),
    (WEIGHTED, "zero_point", predicates.require_symmetric_weights, VELA),
    (WEIGHTED, "weights", limits.small_weight_sums, VELA),
    (ops.TransposeConv2d, "dilation", predicates.sides_at_most(1, "dilation", "1"), TRIED),
    (ops.TransposeConv2d, "output_padding", predicates.require_zeros("output_padding", "0"), VELA),
)
U55: tuple[RuleRow, ...] = (
    (ops.BatchMatmul, "dtype", predicates.int8_activations, VELA),
    (CONVOLUTIONS, "stride", limits.supported_strides, VELA),
    (ops.TransposeConv2d, "stride", limits.transposed_stride, VELA),
    (RESIZES, "factor", limits.resize_factor, VELA),
    (ops.Transpose, "extents", limits.transposed_extents, VELA),
    (RESIZES, "images", limits.resized_images, TRIED),
)
U85: tuple[RuleRow, ...] = (
    (ops.BatchMatmul, "dtype", predicates.int8_or_int16_activations, STREAM),
    (CONVOLUTIONS, "stride", limits_u85.supported_strides, STREAM),
    (ops.TransposeConv2d, "stride", limits_u85.transposed_stride, TRIED),
    (ops.ResizeNearest, "factor", limits_u85.nearest_factor, VELA),
    (ops.ResizeBilinear, "factor", limits_u85.bilinear_factor, VELA),
    (ops.ResizeNearest, "pixels", limits_u85.nearest_pixels, STREAM),
)
_ROWS = predicates.at_most(limits.MAX_ROWS, predicates.softmax_rows, f"{limits.MAX_ROWS} at most")
OTHERS: tuple[RuleRow, ...] = (
    (POOLS, "kernel", limits.small_pool_window, VELA),
    (ops.AvgPool2d, "padding", limits.average_padding, VELA),
    (ops.Mean, "axes", limits.mean_axes, VELA),
    (EXTREMES, "axes", limits.outermost_axes, STREAM),
    (ops.ReduceSum, "axes", limits.one_summed_axis, STREAM),
    (ops.Lut, "function", predicates.function_among((*limits.FUNCTIONS, ops.Function.TABLE)), VELA),
    (ops.Lut, "output", predicates.fixed_output_quantization, VELA),
    (ops.Lut, "table", limits.known_table, VELA),
    (ops.Softmax, "output", predicates.softmax_scale, VELA),
    (ops.Softmax, "rows", _ROWS, VELA),
    (ops.Slice, "step", limits.slice_steps, VELA),
)
