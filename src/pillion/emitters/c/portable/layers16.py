# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of layers and pools with 16-bit operands and results."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import (
    INT16_ABY,
    INT16_XY,
    Check,
    check_constants,
    fixed_point,
    has_dtypes,
    in_arithmetic,
    in_litert_form,
    is_within,
    short_circuit,
)
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.emitters.c.walk import few_walk_axes
from pillion.ir import numerics
from pillion.ir.numerics import INT16_MAX, Arithmetic
from pillion.ir.types import DType, Value
from pillion.ir.verdict import Verdict
from pillion.ops.clamp import Clamp
from pillion.ops.conv import Conv2d, DepthwiseConv2d
from pillion.ops.elementwise import Add, Maximum, Minimum, Mul, Sub
from pillion.ops.formats import Requantize
from pillion.ops.linear import Linear
from pillion.ops.lut import Lut
from pillion.ops.lut_tflite16 import SCALED, TABULATED, function_table, input_factor, sigmoids, slopes
from pillion.ops.pool import AvgPool2d, MaxPool2d
from pillion.ops.softmax import Softmax
from pillion.ops.softmax16 import exponentials, reciprocals
from pillion.ops.transpose_conv import TransposeConv2d
from pillion.ops.unary_functions import Function

_CONSTANT_BYTES = has_dtypes("weights", DType.INT8), check_constants("weights bias")
LAYER_16 = INT16_XY, *_CONSTANT_BYTES


def sums_of_bytes_have_32_bits(op: Any) -> Verdict:
    """Checks whether sums of 8-bit operands and biases fit 32 bits."""
    largest = int(op.largest_8_bit_sums.max(initial=0))
    return Verdict("sums", largest <= numerics.INT32_MAX, "below 2^31", f"up to {largest}")


_TYPES_8_16 = (has_dtypes("x", DType.INT8), has_dtypes("y", DType.INT16), has_dtypes("bias", DType.INT32))
LAYER_8_16: Check[Any] = short_circuit(*_TYPES_8_16, *_CONSTANT_BYTES, sums_of_bytes_have_32_bits)
"""The operand of a layer is int8, its result int16; weights and bias are constant, and sums have 32 bits."""


def rounding_params(op: Any) -> Params:
    """Returns the bias of each channel and the constants that rescale its sum. The part of a bias beyond 32 bits lies
    above the 15 bits of the multiplier."""
    multiplier, right = numerics.to_15_bits(*op.multipliers)
    bias = op.bias.constant.astype(np.int64)
    low = numerics.wrap_to_32_bits(bias)
    as_words = {"bias": low, "multiplier": multiplier + (bias - low >> 16), "right": right}
    return {name: np.ascontiguousarray(array, np.int32) for name, array in as_words.items()}


def conv_params(op: Conv2d | DepthwiseConv2d) -> Params:
    """Returns the parameters of a convolution with weights in the order of its outputs."""
    groups = op.groups if isinstance(op, Conv2d) else op.in_channels
    weights = np.ascontiguousarray(op.weights_per_output).reshape(-1)
    return {"groups": groups, "weights": weights, **rounding_params(op)}


def transposed_params(op: TransposeConv2d) -> Params:
    """Returns the parameters of a transposed convolution."""
    return {"weights": np.ascontiguousarray(op.weights.constant).reshape(-1), **rounding_params(op)}


def depthwise_params(op: DepthwiseConv2d) -> Params:
    """Returns the parameters of a depthwise convolution."""
    if op.depth_multiplier != 1:
        return conv_params(op)
    return {"weights": np.ascontiguousarray(op.weights.constant).reshape(-1), **rounding_params(op)}


def row_of_pixels(op: Linear, further: str = "groups") -> Params:
    """Returns the sizes of a fully connected layer as a convolution of one row of pixels, and a further field that is 1."""
    ones = ("batch", "in_h", "out_h", "kernel_h", "kernel_w", further)
    steps = ("stride_h", "stride_w", "dilation_h", "dilation_w")
    return {
        **dict.fromkeys((*ones, *steps), 1),
        **{"pad_top": 0, "pad_left": 0, "in_w": op.rows, "out_w": op.rows},
        **{"in_c": op.in_features, "out_c": op.out_features},
    }


def linear_params(op: Linear) -> Params:
    """Returns the parameters of a fully connected layer as a convolution."""
    return {
        **row_of_pixels(op),
        "weights": np.ascontiguousarray(op.weights.constant).reshape(-1),
        **rounding_params(op),
    }


def kernel_8_16(op: type[Any], params: Any) -> Kernel:
    """Returns the portable kernel of a layer with 8-bit operands and 16-bit results."""
    return PORTABLE.kernel(op, "conv2d_s8_s16", params, requires=(LAYER_8_16,))


def softmax_params(op: Softmax) -> Params:
    """Returns the parameters of a softmax."""
    sizes = {"rows": math.prod(op.x.shape[:-1]), "count": op.x.shape[-1]}
    return {**sizes, "exponentials": exponentials(), "reciprocals": reciprocals()}


def row_sum_fits(op: Softmax) -> Verdict:
    """Checks whether the sum of a row fits 31 bits."""
    return is_within("elements", op.x.shape[-1], most=INT16_MAX)


SOFTMAX: dict[str, Any] = {"requires": (INT16_XY, row_sum_fits), "in_place": "x"}


def has_one_scale(op: Clamp) -> Verdict:
    """Checks whether a clamp leaves the scale as it is."""
    return Verdict(
        "scales", op.x.type.quant == op.y.type.quant, "equal", f"{op.x.type.quant} and {op.y.type.quant}"
    )


def linear_in_double(op: Linear) -> Params:
    """Returns the parameters of a fully connected layer that is scaled in double precision."""
    weights, bias = np.ascontiguousarray(op.weights.constant).reshape(-1), op.bias.constant.astype(np.int64)
    return {"weights": weights, "bias": bias, "scale": op.ratios.copy()}


def lut_routine(op: Lut) -> str:
    """Returns the routine of a 16-bit function."""
    if op.function in SCALED:
        return "leaky_relu_s16"
    if op.function is Function.SQRT:
        return "sqrt_s16"
    return "table_s16" if op.function in TABULATED else "sigmoid_s16"


def lut_params(op: Lut) -> Params:
    """Returns the parameters of a 16-bit function."""
    if op.function in TABULATED:
        return {"table": function_table(op)}
    if op.function is Function.SQRT:
        return {"scale": op.x.scale, "step": op.y.scale}
    if op.function in SCALED:
        above, below = slopes(op)
        return {
            **{
                "multiplier": above.mantissa,
                "shift": above.shift,
                "negative_sign": -1 if op.alpha < 0 else 1,
            },
            **{"negative_multiplier": below.mantissa, "negative_shift": below.shift},
        }
    is_tanh = op.function is Function.TANH
    factor, right = input_factor(op.x.scale, is_tanh)
    return {"factor": factor, "right": right, "is_tanh": int(is_tanh), "sigmoids": sigmoids()}


def requantize_routine(op: Requantize) -> str:
    """Returns the routine of a conversion between 8 and 16 bits."""
    types = dict.fromkeys(f"s{8 * v.dtype.size_bytes}" for v in (op.x, op.y))
    return "_".join(("requantize", *types))


def requantize_params(op: Requantize) -> Params:
    """Returns the parameters of a conversion between 8 and 16 bits."""
    multiplier = numerics.encode_multiplier(op.x.scale / op.y.scale)
    return {"multiplier": multiplier.mantissa, "shift": multiplier.shift}


def has_int16(op: Requantize) -> Verdict:
    """Checks whether the operand or the result has 16 bits."""
    types = (op.x.dtype, op.y.dtype)
    return Verdict("types", DType.INT16 in types, "one is int16", " and ".join(t.value for t in types))


def in_place_same_size(op: Requantize) -> tuple[Value, ...]:
    """Returns the operand of a conversion between tensors of one size."""
    return (op.x,) if op.x.dtype.size_bytes == op.y.dtype.size_bytes else ()


PAIR_16 = (INT16_ABY, few_walk_axes)
KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(Conv2d, "conv2d_s16", conv_params, requires=LAYER_16),
    PORTABLE.kernel(
        DepthwiseConv2d,
        lambda op: "depthwise_conv2d_s16" if op.depth_multiplier == 1 else "conv2d_s16",
        depthwise_params,
        requires=LAYER_16,
        name="depthwise_conv2d_16",
    ),
    PORTABLE.kernel(Linear, "conv2d_s16", linear_params, requires=(*LAYER_16, fixed_point)),
    PORTABLE.kernel(
        Linear, "linear_tflite_s16", linear_in_double, requires=(*LAYER_16, in_arithmetic(Arithmetic.TFLITE))
    ),
    kernel_8_16(Conv2d, conv_params),
    kernel_8_16(DepthwiseConv2d, conv_params),
    kernel_8_16(Linear, linear_params),
    PORTABLE.kernel(TransposeConv2d, "transpose_conv2d_s16", transposed_params, requires=LAYER_16),
    *(
        PORTABLE.kernel(op, "add_s16", requires=(*PAIR_16, in_litert_form), in_place="a b")
        for op in (Add, Sub)
    ),
    PORTABLE.kernel(Mul, "mul_s16", requires=(*PAIR_16, in_litert_form), in_place="a b"),
    *(PORTABLE.kernel(op, f"{op.kind}_s16", requires=PAIR_16, in_place="a b") for op in (Minimum, Maximum)),
    PORTABLE.kernel(
        Requantize,
        requantize_routine,
        requantize_params,
        requires=(has_int16, in_litert_form),
        in_place=in_place_same_size,
        name="requantize_16",
    ),
    PORTABLE.kernel(
        Lut, lut_routine, lut_params, requires=(INT16_XY, in_litert_form), in_place="x", name="lut_16"
    ),
    PORTABLE.kernel(Softmax, "softmax_s16", softmax_params, **SOFTMAX),
    PORTABLE.kernel(Clamp, "clamp_s16", requires=(INT16_XY, has_one_scale), in_place="x"),
    PORTABLE.kernel(MaxPool2d, "max_pool2d_s16", requires=(INT16_XY,)),
    PORTABLE.kernel(AvgPool2d, "avg_pool2d_s16", requires=(INT16_XY,)),
)
