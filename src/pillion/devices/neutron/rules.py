# SPDX-License-Identifier: Apache-2.0
"""The rules of NXP's converter, one row per op and rule: the requirement, its predicate and its source.

Sources: "converter" is the behaviour of NXP's converter (flow of SDK 3.1.2 and later) as its ExecuTorch backend encodes it;
"quantizer" is a guarantee of that backend's quantizer; "IR" is a limit of the TFLite form."""

from __future__ import annotations

from pillion.devices import predicates
from pillion.devices.device import Rule, rules_for
from pillion.devices.neutron import limits as limits
from pillion.devices.neutron.limits import NeutronGeometry
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
from pillion.ops.compare_select import ArgMax, ArgMin, Compare, TopPlaces, TopValues, Where
from pillion.ops.detections import Detections
from pillion.ops.embedding_bag import EmbeddingBag
from pillion.ops.indexing import Cast, Gather
from pillion.ops.integer_arithmetic import IntegerArithmetic
from pillion.ops.l2_normalize import L2Normalize
from pillion.ops.log_softmax import LogSoftmax
from pillion.ops.lstm import LstmCell, LstmOutput
from pillion.ops.magnitude import Magnitude
from pillion.ops.matmul import BatchMatmul
from pillion.ops.normalize import Normalize
from pillion.ops.prelu import Prelu
from pillion.ops.reduce import ReduceMax, ReduceMin, ReduceSum
from pillion.ops.resize import ResizeBilinear, ResizeBilinearFloat, ResizeNearest
from pillion.ops.squared_difference import SquaredDifference
from pillion.ops.svdf import SvdfMemory, SvdfOutput
from pillion.ops.transpose_conv import TransposeConv2d
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

SELECTING = (
    Gather,
    EmbeddingBag,
    Compare,
    IntegerArithmetic,
    Where,
    ArgMax,
    ArgMin,
    TopValues,
    TopPlaces,
    Cast,
)
RECURRENT = (LstmCell, LstmOutput, SvdfMemory, SvdfOutput)
UNSUPPORTED: tuple[type[Op], ...] = (
    *(Div, SquaredDifference, Magnitude, Flip, LogSoftmax, L2Normalize, Normalize, *SELECTING),
    *(WideAdd, WideLut, WideMul),
    *(*RECURRENT, Detections, Quantize, Dequantize, Requantize, AvgPool2dUp, ResizeBilinearFloat),
)
"""Ops that stay on the core: the converter has no integer division, and segments begin and end in int8 of one
scale."""

WINDOW = f"height and width at most {limits.MAX_WINDOW}"
FACTORS = ", ".join(map(str, limits.RESIZE_FACTORS))


def rules(geometry: NeutronGeometry) -> tuple[Rule, ...]:
    """Returns all rules of a Neutron of this size."""
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
        *rules_for(SUPPORTED, "dtype", "int8", predicates.activations_int8, CONVERTER),
        *rules_for(SUPPORTED, "shape", ranks, limits.tensor_shapes, IR),
        *rules_for(SHARED, "parameters", same, predicates.same_parameters, CONVERTER),
        *rules_for(PAIRS, "broadcast", whole, predicates.broadcast, CONVERTER),
        *rules_for(WEIGHTED, "constants", "constant weights and bias", predicates.constants, CONVERTER),
    ]


def _dot_product(geometry: NeutronGeometry) -> str:
    channels = f"channels (to a multiple of {geometry.macs})"
    return f"kernel height · width · {channels} at most {limits.MAX_DOT_PRODUCT}"


def _convolutions(geometry: NeutronGeometry) -> list[Rule]:
    size = _dot_product(geometry)
    return [
        *rules_for(
            CONVOLUTIONS, "kernel", WINDOW, predicates.at_most(limits.MAX_WINDOW, "kernel"), CONVERTER
        ),
        *rules_for(
            CONVOLUTIONS, "stride", WINDOW, predicates.at_most(limits.MAX_WINDOW, "stride"), CONVERTER
        ),
        *rules_for(
            CONVOLUTIONS, "dilation", WINDOW, predicates.at_most(limits.MAX_WINDOW, "dilation"), CONVERTER
        ),
        *rules_for(CONVOLUTIONS, "dot_product", size, limits.dot_product(geometry), CONVERTER),
        *rules_for(
            CONVOLUTIONS, "zero_point", "weights with zero point 0", predicates.symmetric_weights, QUANTIZER
        ),
        Rule(Conv2d, "groups", "1 (a pass splits others)", predicates.equal(1, "groups"), CONVERTER),
        Rule(
            DepthwiseConv2d,
            "multiplier",
            "1 (a pass expands others)",
            predicates.equal(1, "depth_multiplier"),
            CONVERTER,
        ),
    ]


def _transposed_convolutions(geometry: NeutronGeometry) -> list[Rule]:
    op, size = TransposeConv2d, _dot_product(geometry)
    stride = f"height and width at most {limits.MAX_TRANSPOSE_CONV_STRIDE} and those of the kernel"
    return [
        Rule(op, "kernel", WINDOW, predicates.at_most(limits.MAX_WINDOW, "kernel"), CONVERTER),
        Rule(op, "stride", stride, limits.short_stride, CONVERTER),
        Rule(op, "dilation", "1", predicates.at_most(1, "dilation"), CONVERTER),
        Rule(op, "padding", "smaller than the kernel", limits.little_padding, CONVERTER),
        Rule(op, "dot_product", size, limits.dot_product(geometry), CONVERTER),
        Rule(op, "zero_point", "weights with zero point 0", predicates.symmetric_weights, QUANTIZER),
    ]


def _products() -> list[Rule]:
    return [
        Rule(BatchMatmul, "zero_points", "zero point 0 for both operands", limits.both_symmetric, CONVERTER),
        Rule(Linear, "zero_point", "weights with zero point 0", predicates.symmetric_weights, QUANTIZER),
        Rule(Linear, "weights", "one scale for all weights", predicates.per_tensor_weights, QUANTIZER),
    ]


def _pools() -> list[Rule]:
    outside = "none (padding must not count in the average)"
    factor = f"height and width scaled by one of {FACTORS} (between corner pixels with align_corners)"
    nearest, bilinear = "neither align_corners nor half_pixel", "align_corners or half_pixel"
    return [
        Rule(AvgPool2d, "kernel", WINDOW, predicates.at_most(limits.MAX_WINDOW, "kernel"), CONVERTER),
        *rules_for(POOLS, "stride", WINDOW, predicates.at_most(limits.MAX_WINDOW, "stride"), CONVERTER),
        Rule(AvgPool2d, "padding", outside, limits.no_padding, CONVERTER),
        *rules_for(RESIZES, "factor", factor, limits.resize_factor, CONVERTER),
        Rule(ResizeNearest, "mode", nearest, limits.resize_mode, IR),
        Rule(ResizeBilinear, "mode", bilinear, limits.resize_mode, IR),
    ]


def _elementwise() -> list[Rule]:
    functions = f"one of {', '.join(f.value for f in limits.FUNCTIONS)}"
    fixed = "sigmoid: scale 1/256, zero point -128; tanh: scale 1/128, zero point 0"
    inside = "at least one bound strictly inside the operand's -128 to 127"
    form = "the bounds of relu, relu6, relu_n1_to_1 or relu_0_to_1, or an unchanged scale"
    return [
        Rule(Lut, "function", functions, limits.known_function, IR),
        Rule(Lut, "output", fixed, predicates.fixed_output, IR),
        Rule(Lut, "table", "values within 32 bits", predicates.table_defined, IR),
        Rule(
            Add,
            "scale",
            "a result scale of more than 2^-19 of the larger operand scale",
            limits.sum_scale,
            IR,
        ),
        Rule(Clamp, "bounds", inside, limits.clamp_survives, CONVERTER),
        Rule(Clamp, "form", form, predicates.clamp_form, CONVERTER),
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
        Rule(Softmax, "output", "scale 1/256", predicates.softmax_scale, IR),
    ]


def _movement() -> list[Rule]:
    ranks = {
        Reshape: limits.MAX_RESHAPE_RANK,
        Transpose: limits.MAX_TRANSPOSE_RANK,
        Pad: limits.MAX_PAD_RANK,
    }
    return [
        Rule(Slice, "step", "1 along every axis", predicates.unit_steps, IR),
        *(
            Rule(op, "rank", f"at most {rank}", predicates.rank_at_most(rank), IR)
            for op, rank in ranks.items()
        ),
    ]
