# SPDX-License-Identifier: Apache-2.0
"""What NXP's converter takes, op by op, as rows: op, rule, what it wants, how that is looked up, where it comes from.

Sources: "converter" is the behaviour of NXP's converter (flow of SDK 3.1.2 and later) as its ExecuTorch backend encodes it;
"quantizer" is what that backend's quantizer guarantees; "IR" is what the TFLite form can express."""

from __future__ import annotations

from pillion.devices import looks
from pillion.devices.device import Rule, rules_for
from pillion.devices.neutron import limits as limits
from pillion.devices.neutron.limits import Geometry
from pillion.ir.op import Op
from pillion.ops import (
    Add,
    AvgPool2d,
    AvgPool2dUp,
    Clamp,
    Concat,
    Conv2d,
    DepthwiseConv2d,
    Dequantize,
    Div,
    Flip,
    Linear,
    Lut,
    Maximum,
    MaxPool2d,
    Mean,
    Minimum,
    Mul,
    Pad,
    Quantize,
    Requantize,
    Reshape,
    Slice,
    Softmax,
    Sub,
    Transpose,
)
from pillion.ops.bag import Bag
from pillion.ops.choosing import ArgMax, ArgMin, Compare, TopPlaces, TopValues, Where
from pillion.ops.detections import Detections
from pillion.ops.indexing import Cast, Gather
from pillion.ops.l2_normalize import L2Normalize
from pillion.ops.log_softmax import LogSoftmax
from pillion.ops.lstm import LstmCell, LstmOutput
from pillion.ops.magnitude import Magnitude
from pillion.ops.matmul import BatchMatmul
from pillion.ops.prelu import Prelu
from pillion.ops.reduce import ReduceMax, ReduceMin, ReduceSum
from pillion.ops.resize import ResizeBilinear, ResizeBilinearFloat, ResizeNearest
from pillion.ops.squared_difference import SquaredDifference
from pillion.ops.standardize import Standardize
from pillion.ops.svdf import SvdfMemory, SvdfOutput
from pillion.ops.transpose_conv import TransposeConv2d
from pillion.ops.whole import Whole
from pillion.ops.wide_add import WideAdd
from pillion.ops.wide_lut import WideLut
from pillion.ops.wide_mul import WideMul

CONVERTER, QUANTIZER, IR = "converter", "quantizer", "IR"

CONVOLUTIONS = (Conv2d, DepthwiseConv2d)
WEIGHTED = (*CONVOLUTIONS, TransposeConv2d, Linear)
POOLS = (AvgPool2d, MaxPool2d)
RESIZES = (ResizeNearest, ResizeBilinear)
REDUCTIONS = (Mean, ReduceSum, ReduceMax, ReduceMin)
SHARED = (*POOLS, *REDUCTIONS, Minimum, Maximum, Concat, Slice, Pad, Reshape, Transpose)
PAIRS = (Add, Sub, Mul, Minimum, Maximum)
SUPPORTED: tuple[type[Op], ...] = (
    *(*WEIGHTED, BatchMatmul, Add, Sub, Mul, Lut, Prelu, Clamp, Softmax),
    *(*RESIZES, *SHARED),
)

CHOOSING = (Gather, Bag, Compare, Whole, Where, ArgMax, ArgMin, TopValues, TopPlaces, Cast)
REMEMBERING = (LstmCell, LstmOutput, SvdfMemory, SvdfOutput)
LACKING: tuple[type[Op], ...] = (
    *(Div, SquaredDifference, Magnitude, Flip, LogSoftmax, L2Normalize, Standardize, *CHOOSING),
    *(WideAdd, WideLut, WideMul),
    *(*REMEMBERING, Detections, Quantize, Dequantize, Requantize, AvgPool2dUp, ResizeBilinearFloat),
)
"""What stays on the core on purpose: the converter has no integer division, and segments begin and end in int8 of one scale."""

WINDOW = f"height and width at most {limits.MAX_WINDOW}"
FACTORS = ", ".join(map(str, limits.RESIZE_FACTORS))


def rules(geometry: Geometry) -> tuple[Rule, ...]:
    """Gives all rules of a Neutron of some size."""
    return (
        *_tensors(),
        *_convolutions(geometry),
        *_transposed_convolutions(geometry),
        *_products(),
        *_pools(),
        *_elementwise(),
        *_softmax(),
        *_movement(),
    )


def _tensors() -> list[Rule]:
    ranks = f"tensors of at most {limits.MAX_RANK} axes, none empty"
    same = "the same scale and zero point for operands and result"
    whole = "one operand with as many elements as the result"
    return [
        *rules_for(SUPPORTED, "dtype", "int8", looks.activations_int8, CONVERTER),
        *rules_for(SUPPORTED, "shape", ranks, limits.tensor_shapes, IR),
        *rules_for(SHARED, "parameters", same, looks.same_parameters, CONVERTER),
        *rules_for(PAIRS, "broadcast", whole, looks.broadcast, CONVERTER),
        *rules_for(WEIGHTED, "constants", "constant weights and bias", looks.constants, CONVERTER),
    ]


def _dot_product(geometry: Geometry) -> str:
    channels = f"channels (to a multiple of {geometry.macs})"
    return f"kernel height · width · {channels} at most {limits.MAX_DOT_PRODUCT}"


def _convolutions(geometry: Geometry) -> list[Rule]:
    size = _dot_product(geometry)
    return [
        *rules_for(CONVOLUTIONS, "kernel", WINDOW, looks.at_most(limits.MAX_WINDOW, "kernel"), CONVERTER),
        *rules_for(CONVOLUTIONS, "stride", WINDOW, looks.at_most(limits.MAX_WINDOW, "stride"), CONVERTER),
        *rules_for(CONVOLUTIONS, "dilation", WINDOW, looks.at_most(limits.MAX_WINDOW, "dilation"), CONVERTER),
        *rules_for(CONVOLUTIONS, "dot_product", size, limits.dot_product(geometry), CONVERTER),
        *rules_for(
            CONVOLUTIONS, "zero_point", "weights with zero point 0", looks.symmetric_weights, QUANTIZER
        ),
        Rule(Conv2d, "groups", "1 (others are split beforehand)", looks.equal(1, "groups"), CONVERTER),
        Rule(
            DepthwiseConv2d,
            "multiplier",
            "1 (others are spread beforehand)",
            looks.equal(1, "depth_multiplier"),
            CONVERTER,
        ),
    ]


def _transposed_convolutions(geometry: Geometry) -> list[Rule]:
    op, size = TransposeConv2d, _dot_product(geometry)
    stride = f"height and width at most {limits.MAX_TRANSPOSE_CONV_STRIDE} and those of the kernel"
    return [
        Rule(op, "kernel", WINDOW, looks.at_most(limits.MAX_WINDOW, "kernel"), CONVERTER),
        Rule(op, "stride", stride, limits.short_stride, CONVERTER),
        Rule(op, "dilation", "1", looks.at_most(1, "dilation"), CONVERTER),
        Rule(op, "padding", "smaller than the kernel", limits.little_padding, CONVERTER),
        Rule(op, "dot_product", size, limits.dot_product(geometry), CONVERTER),
        Rule(op, "zero_point", "weights with zero point 0", looks.symmetric_weights, QUANTIZER),
    ]


def _products() -> list[Rule]:
    return [
        Rule(BatchMatmul, "zero_points", "zero point 0 for both operands", limits.both_symmetric, CONVERTER),
        Rule(Linear, "zero_point", "weights with zero point 0", looks.symmetric_weights, QUANTIZER),
        Rule(Linear, "weights", "one scale for all weights", looks.per_tensor_weights, QUANTIZER),
    ]


def _pools() -> list[Rule]:
    outside = "none (what lies outside must not count)"
    factor = f"height and width times one of {FACTORS} (less one pixel, if corners are aligned)"
    nearest, bilinear = "neither align_corners nor half_pixel", "align_corners or half_pixel"
    return [
        Rule(AvgPool2d, "kernel", WINDOW, looks.at_most(limits.MAX_WINDOW, "kernel"), CONVERTER),
        *rules_for(POOLS, "stride", WINDOW, looks.at_most(limits.MAX_WINDOW, "stride"), CONVERTER),
        Rule(AvgPool2d, "padding", outside, limits.no_padding, CONVERTER),
        *rules_for(RESIZES, "factor", factor, limits.resize_factor, CONVERTER),
        Rule(ResizeNearest, "mode", nearest, limits.resize_mode, IR),
        Rule(ResizeBilinear, "mode", bilinear, limits.resize_mode, IR),
    ]


def _elementwise() -> list[Rule]:
    functions = f"one of {', '.join(f.value for f in limits.FUNCTIONS)}"
    fixed = "sigmoid from -128 in steps of 1/256, tanh around 0 of 1/128"
    inside = "at least one bound strictly inside the operand's -128 to 127"
    form = "a relu, relu6, relu_n1_to_1 or relu_0_to_1, or bounds that keep the scale"
    return [
        Rule(Lut, "function", functions, limits.known_function, IR),
        Rule(Lut, "output", fixed, looks.fixed_output, IR),
        Rule(Lut, "table", "values that 32 bits hold", looks.table_defined, IR),
        Rule(
            Add, "scale", "a result in steps of more than 2^-19 of the larger operand's", limits.sum_scale, IR
        ),
        Rule(Clamp, "bounds", inside, limits.clamp_survives, CONVERTER),
        Rule(Clamp, "form", form, looks.clamp_form, CONVERTER),
    ]


def _softmax() -> list[Rule]:
    channels, rows, elements = (
        limits.MAX_SOFTMAX_CHANNELS,
        limits.MAX_SOFTMAX_ROWS,
        limits.MAX_SOFTMAX_ELEMENTS,
    )
    return [
        Rule(Softmax, "channels", f"at most {channels}", limits.softmax_channels, CONVERTER),
        Rule(Softmax, "rows", f"at most {rows}", limits.softmax_rows, CONVERTER),
        Rule(Softmax, "elements", f"at most {elements}", limits.softmax_elements, CONVERTER),
        Rule(Softmax, "output", "steps of 1/256", looks.usual_steps, IR),
    ]


def _movement() -> list[Rule]:
    ranks = {
        Reshape: limits.MAX_RESHAPE_RANK,
        Transpose: limits.MAX_TRANSPOSE_RANK,
        Pad: limits.MAX_PAD_RANK,
    }
    return [
        Rule(Slice, "step", "1 along every axis", looks.unit_steps, IR),
        *(Rule(op, "rank", f"at most {rank}", looks.rank_at_most(rank), IR) for op, rank in ranks.items()),
    ]
