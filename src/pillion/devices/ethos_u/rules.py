# SPDX-License-Identifier: Apache-2.0
"""What Ethos-U takes, op by op, as rows: op, rule, what it wants, how that is looked up, where it comes from.

Sources: "Vela" is a sentence of its report of supported operators, "tried" what it does beyond that report, seen by compiling each limit
and one past it; "stream" what the command streams compute that it makes: some shapes of reductions are wrong, and stay away."""

from __future__ import annotations

from pillion.devices import looks
from pillion.devices.device import Rule, rules_for
from pillion.devices.ethos_u import limits
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


def rules() -> tuple[Rule, ...]:
    """Gives all rules."""
    return (*_tensors(), *_convolutions(), *_windows(), *_reductions(), *_others())


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
    stride = f"at most {limits.MAX_STRIDE}"
    longer = f"{stride}; a conv2d's may be longer without groups, border and dilation"
    sums = f"magnitudes of at most {limits.MAX_WEIGHT_SUM} for each result channel"
    transposed = "1 or 2 in both directions, and at most the kernel"
    return [
        *rules_for(CONVOLUTIONS, "stride", longer, limits.strides, VELA),
        *rules_for(WEIGHTED, "weights", sums, limits.weight_sums, VELA),
        Rule(TransposeConv2d, "stride", transposed, limits.transposed_stride, VELA),
        Rule(TransposeConv2d, "dilation", "1", looks.at_most(1, "dilation"), TRIED),
        Rule(TransposeConv2d, "output_padding", "0", limits.no_output_padding, VELA),
    ]


def _windows() -> list[Rule]:
    window = f"height at most {limits.MAX_POOL_HEIGHT}, size at most {limits.MAX_POOL_SIZE}"
    small = f"no border, or sides of at most {limits.MAX_PADDED_AVERAGE} and strides of at most {limits.MAX_STRIDE}"
    factors = ", ".join(map(str, limits.FACTORS))
    growth = f"times {factors} in both directions (bilinear with half pixels 2), or from one pixel"
    return [
        *rules_for(POOLS, "kernel", window, limits.pool_window, VELA),
        Rule(AvgPool2d, "padding", small, limits.padded_average, VELA),
        *rules_for(RESIZES, "factor", growth, limits.growth, VELA),
        *rules_for(RESIZES, "images", "1", limits.one_image, TRIED),
    ]


def _reductions() -> list[Rule]:
    mean = "one image; over channels only where rows, columns or channels are 1"
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
    functions = f"one of {', '.join(f.value for f in limits.FUNCTIONS)}"
    fixed = "sigmoid from -128 in steps of 1/256, tanh around 0 of 1/128"
    return [
        Rule(Lut, "function", functions, limits.known_function(limits.FUNCTIONS), VELA),
        Rule(Lut, "output", fixed, looks.fixed_output, VELA),
        Rule(Lut, "table", "values that 32 bits hold", looks.table_defined, VELA),
        Rule(Softmax, "output", "steps of 1/256", looks.usual_steps, VELA),
        Rule(Slice, "step", "along rows and columns only", limits.slice_steps, VELA),
    ]
