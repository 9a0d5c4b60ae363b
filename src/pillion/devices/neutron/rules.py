# SPDX-License-Identifier: Apache-2.0
"""The rules of NXP's converter, one row per op and rule: the requirement, its predicate and its source.

Sources: "converter" is the behaviour of NXP's converter (flow of SDK 3.1.2 and later) as its ExecuTorch backend encodes it;
"quantizer" is a guarantee of that backend's quantizer; "IR" is a limit of the TFLite form."""

from __future__ import annotations

from pillion.devices import predicates
from pillion.devices.device import NpuRule, rules_for
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


def rules(geometry: NeutronGeometry) -> tuple[NpuRule, ...]:
    """Returns all rules of a Neutron of this size."""
    return (
        *_tensor_rules(),
        *_convolution_rules(geometry),
        *_transposed_convolution_rules(geometry),
        *_product_rules(),
        *_pool_rules(),
        *_elementwise_rules(),
        *_softmax_rules(),
        *_data_movement_rules(),
    )


def _tensor_rules() -> list[NpuRule]:
    ranks = f"tensors of at most {limits.MAX_RANK} axes, none empty"
    same = "the same scale and zero point for operands and result"
    requirement = "one operand with as many elements as the result"
    return [
        *rules_for(SUPPORTED, "dtype", "int8", predicates.activations_int8, CONVERTER),
        *rules_for(SUPPORTED, "shape", ranks, limits.has_supported_shapes, IR),
        *rules_for(SHARED, "parameters", same, predicates.has_same_quantization, CONVERTER),
        *rules_for(PAIRS, "broadcast", requirement, predicates.broadcasts_one_operand, CONVERTER),
        *rules_for(
            WEIGHTED, "constants", "constant weights and bias", predicates.has_constant_weights, CONVERTER
        ),
    ]


def _dot_product_requirement(geometry: NeutronGeometry) -> str:
    channels = f"channels (to a multiple of {geometry.macs})"
    return f"kernel height · width · {channels} at most {limits.MAX_DOT_PRODUCT}"


def _convolution_rules(geometry: NeutronGeometry) -> list[NpuRule]:
    size = _dot_product_requirement(geometry)
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
        *rules_for(CONVOLUTIONS, "dot_product", size, limits.dot_product_length_limit(geometry), CONVERTER),
        *rules_for(
            CONVOLUTIONS, "zero_point", "weights with zero point 0", predicates.symmetric_weights, QUANTIZER
        ),
        NpuRule(Conv2d, "groups", "1 (a pass splits others)", predicates.equal(1, "groups"), CONVERTER),
        NpuRule(
            DepthwiseConv2d,
            "multiplier",
            "1 (a pass expands others)",
            predicates.equal(1, "depth_multiplier"),
            CONVERTER,
        ),
    ]


def _transposed_convolution_rules(geometry: NeutronGeometry) -> list[NpuRule]:
    op, size = TransposeConv2d, _dot_product_requirement(geometry)
    stride = f"height and width at most {limits.MAX_TRANSPOSE_CONV_STRIDE} and those of the kernel"
    return [
        NpuRule(op, "kernel", WINDOW, predicates.at_most(limits.MAX_WINDOW, "kernel"), CONVERTER),
        NpuRule(op, "stride", stride, limits.has_short_stride, CONVERTER),
        NpuRule(op, "dilation", "1", predicates.at_most(1, "dilation"), CONVERTER),
        NpuRule(op, "padding", "smaller than the kernel", limits.has_little_padding, CONVERTER),
        NpuRule(op, "dot_product", size, limits.dot_product_length_limit(geometry), CONVERTER),
        NpuRule(op, "zero_point", "weights with zero point 0", predicates.symmetric_weights, QUANTIZER),
    ]


def _product_rules() -> list[NpuRule]:
    return [
        NpuRule(
            BatchMatmul, "zero_points", "zero point 0 for both operands", limits.both_symmetric, CONVERTER
        ),
        NpuRule(Linear, "zero_point", "weights with zero point 0", predicates.symmetric_weights, QUANTIZER),
        NpuRule(Linear, "weights", "one scale for all weights", predicates.per_tensor_weights, QUANTIZER),
    ]


def _pool_rules() -> list[NpuRule]:
    outside = "none (padding must not count in the average)"
    factor = f"height and width scaled by one of {FACTORS} (between corner pixels with align_corners)"
    nearest, bilinear = "neither align_corners nor half_pixel", "align_corners or half_pixel"
    return [
        NpuRule(AvgPool2d, "kernel", WINDOW, predicates.at_most(limits.MAX_WINDOW, "kernel"), CONVERTER),
        *rules_for(POOLS, "stride", WINDOW, predicates.at_most(limits.MAX_WINDOW, "stride"), CONVERTER),
        NpuRule(AvgPool2d, "padding", outside, limits.no_padding, CONVERTER),
        *rules_for(RESIZES, "factor", factor, limits.has_supported_resize_factor, CONVERTER),
        NpuRule(ResizeNearest, "mode", nearest, limits.has_supported_resize_mode, IR),
        NpuRule(ResizeBilinear, "mode", bilinear, limits.has_supported_resize_mode, IR),
    ]


def _elementwise_rules() -> list[NpuRule]:
    functions = f"one of {', '.join(f.value for f in limits.FUNCTIONS)}"
    fixed = "sigmoid: scale 1/256, zero point -128; tanh: scale 1/128, zero point 0"
    inside = "at least one bound strictly inside the operand's -128 to 127"
    form = "the bounds of relu, relu6, relu_n1_to_1 or relu_0_to_1, or an unchanged scale"
    return [
        NpuRule(Lut, "function", functions, limits.has_supported_function, IR),
        NpuRule(Lut, "output", fixed, predicates.has_fixed_output_quantization, IR),
        NpuRule(Lut, "table", "values within 32 bits", predicates.has_defined_table, IR),
        NpuRule(
            Add,
            "scale",
            "a result scale of more than 2^-19 of the larger operand scale",
            limits.has_large_sum_scale,
            IR,
        ),
        NpuRule(Clamp, "bounds", inside, limits.clamp_survives, CONVERTER),
        NpuRule(Clamp, "form", form, predicates.has_representable_bounds, CONVERTER),
    ]


def _softmax_rules() -> list[NpuRule]:
    channels, rows, elements = (
        limits.MAX_SOFTMAX_CHANNELS,
        limits.MAX_SOFTMAX_ROWS,
        limits.MAX_SOFTMAX_ELEMENTS,
    )
    return [
        NpuRule(Softmax, "channels", f"at most {channels}", limits.has_few_softmax_channels, CONVERTER),
        NpuRule(Softmax, "rows", f"at most {rows}", limits.has_few_softmax_rows, CONVERTER),
        NpuRule(Softmax, "elements", f"at most {elements}", limits.has_few_softmax_elements, CONVERTER),
        NpuRule(Softmax, "output", "scale 1/256", predicates.has_softmax_scale, IR),
    ]


def _data_movement_rules() -> list[NpuRule]:
    ranks = {
        Reshape: limits.MAX_RESHAPE_RANK,
        Transpose: limits.MAX_TRANSPOSE_RANK,
        Pad: limits.MAX_PAD_RANK,
    }
    return [
        NpuRule(Slice, "step", "1 along every axis", predicates.has_unit_slice_steps, IR),
        *(
            NpuRule(op, "rank", f"at most {rank}", predicates.rank_at_most(rank), IR)
            for op, rank in ranks.items()
        ),
    ]
