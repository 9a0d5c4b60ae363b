# SPDX-License-Identifier: Apache-2.0
"""The rules of Ethos-U, one row per op and rule: the requirement, its predicate and its source.

Sources: "Vela" is its report of supported operators; "tried" is behaviour beyond that report, found by compiling each limit and
one past it; "stream" excludes shapes of reductions that Vela's command streams compute incorrectly."""

from __future__ import annotations

from pillion.devices import predicates
from pillion.devices.device import NpuRule, rules_for
from pillion.devices.ethos_u import limits, limits_u85
from pillion.devices.ethos_u.accelerators import Family
from pillion.ir.op import Op
from pillion.ops import (
    Add,
    AvgPool2d,
    BatchMatmul,
    Clamp,
    Concat,
    Conv2d,
    DepthwiseConv2d,
    Linear,
    Lut,
    Maximum,
    MaxPool2d,
    Mean,
    Minimum,
    Mul,
    Pad,
    Prelu,
    ReduceMax,
    ReduceMin,
    ReduceSum,
    Requantize,
    Reshape,
    ResizeBilinear,
    ResizeNearest,
    Slice,
    Softmax,
    Sub,
    Transpose,
    TransposeConv2d,
)

VELA, TRIED, STREAM = "Vela", "tried", "stream"

CONVOLUTIONS = (Conv2d, DepthwiseConv2d)
WEIGHTED = (*CONVOLUTIONS, TransposeConv2d, Linear)
POOLS = (AvgPool2d, MaxPool2d)
RESIZES = (ResizeNearest, ResizeBilinear)
EXTREMES = (ReduceMax, ReduceMin)
PAIRS = (Add, Sub, Mul, Minimum, Maximum)
SAME = (*POOLS, *EXTREMES, *RESIZES, Minimum, Maximum, Concat, Slice, Pad, Reshape, Transpose)
SUPPORTED: tuple[type[Op], ...] = (
    *(*WEIGHTED, BatchMatmul, Add, Sub, Mul, Lut, Prelu, Clamp, Softmax, Mean, ReduceSum, Requantize),
    *SAME,
)


def rules(family: Family) -> tuple[NpuRule, ...]:
    """Returns all rules for a family. U55 and U65 have the same; reductions that their command streams
    compute incorrectly are excluded on U85, too."""
    own = (*_u85_rules(),) if family is Family.U85 else (*_u55_rules(),)
    return (
        *_tensor_rules(),
        *_convolution_rules(),
        *own,
        *_window_rules(),
        *_reduction_rules(),
        *_other_rules(),
    )


def _tensor_rules() -> list[NpuRule]:
    shapes = f"1 to {limits.MAX_RANK} axes of 1 to {limits.MAX_EXTENT}"
    same = "the same scale and zero point for operands and result"
    return [
        *rules_for(SUPPORTED, "dtype", "int8", predicates.activations_int8, VELA),
        *rules_for(SUPPORTED, "shape", shapes, limits.has_supported_shapes, VELA),
        *rules_for(SAME, "parameters", same, predicates.has_same_quantization, VELA),
        *rules_for(
            PAIRS,
            "broadcast",
            "at most four axes, or no broadcast",
            limits.has_supported_broadcast,
            STREAM,
        ),
        *rules_for(WEIGHTED, "constants", "constant weights and bias", predicates.has_constant_weights, VELA),
        *rules_for(WEIGHTED, "zero_point", "weights with zero point 0", predicates.symmetric_weights, VELA),
    ]


def _convolution_rules() -> list[NpuRule]:
    sums = f"magnitudes that sum to at most {limits.MAX_WEIGHT_SUM} in each result channel"
    return [
        *rules_for(WEIGHTED, "weights", sums, limits.has_small_weight_sums, VELA),
        NpuRule(TransposeConv2d, "dilation", "1", predicates.at_most(1, "dilation"), TRIED),
        NpuRule(TransposeConv2d, "output_padding", "0", limits.no_output_padding, VELA),
    ]


def _u55_rules() -> list[NpuRule]:
    stride = f"at most {limits.MAX_STRIDE}"
    longer = f"{stride}; for conv2d without groups, any if there is no padding or dilation, or along an axis of one result"
    transposed = "1 or 2 in both directions, and at most the kernel"
    factors = ", ".join(map(str, limits.FACTORS))
    moved = f"the last three axes of one image; or all axes except the two shortest, multiplied, at most {limits.MAX_MOVED}"
    growth = f"scaled by {factors} in both directions (bilinear with half pixels: 2), or from one pixel"
    return [
        *rules_for(CONVOLUTIONS, "stride", longer, limits.has_supported_strides, VELA),
        NpuRule(TransposeConv2d, "stride", transposed, limits.has_supported_transposed_stride, VELA),
        *rules_for(RESIZES, "factor", growth, limits.has_supported_resize_factor, VELA),
        NpuRule(Transpose, "extents", moved, limits.has_supported_transposition, VELA),
        *rules_for(
            RESIZES, "images", "one image, one-pixel images, or an unchanged size", limits.one_image, TRIED
        ),
    ]


def _u85_rules() -> list[NpuRule]:
    transposed = f"at most the kernel, and {limits_u85.MAX_TRANSPOSED_STRIDE}"
    nearest = f"scaled by at most {limits_u85.MAX_NEAREST}; with align_corners no side shrinks to 1"
    powers = f"powers of two up to {limits_u85.MAX_BILINEAR}, with half pixels {limits_u85.MAX_HALF_PIXEL}"
    return [
        NpuRule(TransposeConv2d, "stride", transposed, limits_u85.has_supported_transposed_stride, TRIED),
        NpuRule(ResizeNearest, "factor", nearest, limits_u85.has_supported_resize_factor, VELA),
        NpuRule(
            ResizeBilinear,
            "factor",
            f"{powers}, or from one pixel",
            limits_u85.has_supported_resize_factor,
            VELA,
        ),
    ]


def _window_rules() -> list[NpuRule]:
    window = f"height at most {limits.MAX_POOL_HEIGHT}, size at most {limits.MAX_POOL_SIZE}"
    small = f"no padding, or kernel sides of at most {limits.MAX_PADDED_AVERAGE} and strides of at most {limits.MAX_STRIDE}"
    return [
        *rules_for(POOLS, "kernel", window, limits.has_small_pool_window, VELA),
        NpuRule(AvgPool2d, "padding", small, limits.has_supported_average_padding, VELA),
    ]


def _reduction_rules() -> list[NpuRule]:
    mean = f"one image; over channels only if rows, columns or channels are 1; axes of at most {limits.MAX_MEAN_AXIS}, at most {limits.MAX_MEAN} elements"
    return [
        NpuRule(Mean, "axes", mean, limits.has_supported_mean_axes, VELA),
        *rules_for(
            EXTREMES,
            "axes",
            "the outermost axes without gaps, of at most four",
            limits.reduces_outermost_axes,
            STREAM,
        ),
        NpuRule(ReduceSum, "axes", "one axis, with keepdims if it is the last", limits.sums_one_axis, STREAM),
    ]


def _other_rules() -> list[NpuRule]:
    rows = f"{limits.MAX_ROWS} at most"
    functions = f"one of {', '.join(f.value for f in limits.FUNCTIONS)}"
    fixed = "sigmoid: scale 1/256, zero point -128; tanh: scale 1/128, zero point 0"
    return [
        NpuRule(Lut, "function", functions, limits.known_function(limits.FUNCTIONS), VELA),
        NpuRule(Lut, "output", fixed, predicates.has_fixed_output_quantization, VELA),
        NpuRule(Lut, "table", "values within 32 bits", predicates.has_defined_table, VELA),
        NpuRule(Softmax, "output", "scale 1/256", predicates.has_softmax_scale, VELA),
        NpuRule(Softmax, "rows", rows, limits.has_few_softmax_rows, VELA),
        NpuRule(Slice, "step", "steps along rows and columns only", limits.has_supported_slice_steps, VELA),
    ]
