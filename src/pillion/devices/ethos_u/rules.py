# SPDX-License-Identifier: Apache-2.0
"""What Ethos-U takes, op by op, as rows: op, rule, what it wants, how that is looked up, where it comes from.

Sources: "Vela" is a sentence of its report of supported operators, "tried" what it does beyond that report, seen by compiling each limit
and one past it; "stream" what the command streams compute that it makes: some shapes of reductions are wrong, and stay away."""

from __future__ import annotations

from pillion.devices import looks
from pillion.devices.device import Rule, rules_for
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


def rules(family: Family) -> tuple[Rule, ...]:
    """Gives all rules for NPUs of a family. U55 and U65 have the same; what streams compute wrongly was seen there, and is left out on U85,
    too."""
    own = (*_of_u85(),) if family is Family.U85 else (*_of_u55(),)
    return (*_tensors(), *_convolutions(), *own, *_windows(), *_reductions(), *_others())


def _tensors() -> list[Rule]:
    shapes = f"1 to {limits.MAX_RANK} axes of 1 to {limits.MAX_EXTENT}"
    same = "the same scale and zero point for operands and result"
    return [
        *rules_for(SUPPORTED, "dtype", "int8", looks.activations_int8, VELA),
        *rules_for(SUPPORTED, "shape", shapes, limits.shapes, VELA),
        *rules_for(SAME, "parameters", same, looks.same_parameters, VELA),
        *rules_for(
            PAIRS,
            "broadcast",
            "up to four axes, or operands as large as the result",
            limits.broadcast,
            STREAM,
        ),
        *rules_for(WEIGHTED, "constants", "constant weights and bias", looks.constants, VELA),
        *rules_for(WEIGHTED, "zero_point", "weights with zero point 0", looks.symmetric_weights, VELA),
    ]


def _convolutions() -> list[Rule]:
    sums = f"magnitudes of at most {limits.MAX_WEIGHT_SUM} for each result channel"
    return [
        *rules_for(WEIGHTED, "weights", sums, limits.weight_sums, VELA),
        Rule(TransposeConv2d, "dilation", "1", looks.at_most(1, "dilation"), TRIED),
        Rule(TransposeConv2d, "output_padding", "0", limits.no_output_padding, VELA),
    ]


def _of_u55() -> list[Rule]:
    stride = f"at most {limits.MAX_STRIDE}"
    longer = (
        f"{stride}; of a conv2d without groups more where there is neither border nor dilation, or one result"
    )
    transposed = "1 or 2 in both directions, and at most the kernel"
    factors = ", ".join(map(str, limits.FACTORS))
    moved = f"the last three of one image, or all axes but the two shortest at most {limits.MAX_MOVED}, multiplied"
    growth = f"times {factors} in both directions (bilinear with half pixels 2), or from one pixel"
    return [
        *rules_for(CONVOLUTIONS, "stride", longer, limits.strides, VELA),
        Rule(TransposeConv2d, "stride", transposed, limits.transposed_stride, VELA),
        *rules_for(RESIZES, "factor", growth, limits.growth, VELA),
        Rule(Transpose, "extents", moved, limits.moved_axes, VELA),
        *rules_for(RESIZES, "images", "1, or pixels, or as large as before", limits.one_image, TRIED),
    ]


def _of_u85() -> list[Rule]:
    """Strides of any length, resizing by more factors, several images."""
    transposed = f"at most the kernel, and {limits_u85.MAX_TRANSPOSED_STRIDE}"
    nearest = f"times {limits_u85.MAX_NEAREST} at most; a side stays more than 1 where corners stay"
    powers = f"powers of two up to {limits_u85.MAX_BILINEAR}, with half pixels {limits_u85.MAX_HALF_PIXEL}"
    return [
        Rule(TransposeConv2d, "stride", transposed, limits_u85.transposed_stride, TRIED),
        Rule(ResizeNearest, "factor", nearest, limits_u85.growth, VELA),
        Rule(ResizeBilinear, "factor", f"{powers}, or from one pixel", limits_u85.growth, VELA),
    ]


def _windows() -> list[Rule]:
    window = f"height at most {limits.MAX_POOL_HEIGHT}, size at most {limits.MAX_POOL_SIZE}"
    small = f"no border, or sides of at most {limits.MAX_PADDED_AVERAGE} and strides of at most {limits.MAX_STRIDE}"
    return [
        *rules_for(POOLS, "kernel", window, limits.pool_window, VELA),
        Rule(AvgPool2d, "padding", small, limits.padded_average, VELA),
    ]


def _reductions() -> list[Rule]:
    mean = f"one image; over channels only where rows, columns or channels are 1; axes of {limits.MAX_MEAN_AXIS} at most, {limits.MAX_MEAN} elements"
    return [
        Rule(Mean, "axes", mean, limits.mean_axes, VELA),
        *rules_for(
            EXTREMES,
            "axes",
            "nothing in front of the axes, nor between them; at most four",
            limits.one_extreme,
            STREAM,
        ),
        Rule(ReduceSum, "axes", "one axis, and 1 left of it if it is the last", limits.one_sum, STREAM),
    ]


def _others() -> list[Rule]:
    rows = f"{limits.MAX_ROWS} at most"
    functions = f"one of {', '.join(f.value for f in limits.FUNCTIONS)}"
    fixed = "sigmoid from -128 in steps of 1/256, tanh around 0 of 1/128"
    return [
        Rule(Lut, "function", functions, limits.known_function(limits.FUNCTIONS), VELA),
        Rule(Lut, "output", fixed, looks.fixed_output, VELA),
        Rule(Lut, "table", "values that 32 bits hold", looks.table_defined, VELA),
        Rule(Softmax, "output", "steps of 1/256", looks.usual_steps, VELA),
        Rule(Softmax, "rows", rows, limits.softmax_rows, VELA),
        Rule(Slice, "step", "along rows and columns only", limits.slice_steps, VELA),
    ]
