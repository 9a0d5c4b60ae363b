# SPDX-License-Identifier: Apache-2.0
"""The limits of NXP's eIQ Neutron and the predicates that check them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pillion.devices.device import Predicate
from pillion.devices.predicates import quantized_level_of
from pillion.ir.op import Op
from pillion.ir.types import PerTensor
from pillion.ops import (
    Add,
    AvgPool2d,
    Clamp,
    Conv2d,
    DepthwiseConv2d,
    Function,
    Lut,
    Pad,
    Reshape,
    Slice,
    Transpose,
)
from pillion.ops.matmul import BatchMatmul
from pillion.ops.resize import Resize, ResizeNearest
from pillion.ops.transpose_conv import TransposeConv2d

MAX_WINDOW = 4096
"""The largest kernel, stride and dilation along one axis."""
MAX_DOT_PRODUCT = 65535
"""The largest kernel height · kernel width · input channels (rounded up to the MACs of a pipeline)."""
MAX_TRANSPOSE_CONV_STRIDE = 2
RESIZE_FACTORS = (1, 2, 4, 8)
"""The scale factors of height and width, independent of each other."""
MAX_SOFTMAX_CHANNELS = 2040
MAX_SOFTMAX_ROWS = 4096
MAX_SOFTMAX_ELEMENTS = 524288
MAX_RESHAPE_RANK = 7
MAX_TRANSPOSE_RANK = 6
MAX_PAD_RANK = 5
MAX_RANK = 8
"""The largest rank of any tensor in TFLite form."""

FUNCTIONS = (
    Function.ABS,
    Function.EXP,
    Function.HARDSWISH,
    Function.LEAKY_RELU,
    Function.LOG,
    Function.NEG,
    Function.RSQRT,
    Function.SIGMOID,
    Function.TANH,
)


@dataclass(frozen=True)
class NeutronGeometry:
    """The size of an NPU: parallel dot-product units (pipelines), and multiply-accumulates of each per
    cycle."""

    pipelines: int
    macs: int


def dot_product_length_limit(geometry: NeutronGeometry) -> Predicate:
    """Returns a predicate on the length of dot products, with channels rounded up to whole blocks of this
    NPU."""

    def predicate(op: Op) -> tuple[object, bool]:
        assert isinstance(op, (Conv2d, DepthwiseConv2d, TransposeConv2d))
        channels = -(-op.x.shape[3] // geometry.macs) * geometry.macs
        size = math.prod(op.kernel) * channels
        return size, size <= MAX_DOT_PRODUCT

    return predicate


def no_padding(op: Op) -> tuple[object, bool]:
    """Whether an average pool has no padding."""
    assert isinstance(op, AvgPool2d)
    return op.padding, not any(op.padding)


def has_supported_function(op: Op) -> tuple[object, bool]:
    """Whether the NPU computes the function of a lookup table."""
    assert isinstance(op, Lut)
    return op.function.value, op.function in FUNCTIONS


def clamp_survives(op: Op) -> tuple[object, bool]:
    """Whether the converter keeps a clamp: it removes bounds that no value of the operand can cross, and
    fails if none is left. Bounds are compared before saturation, because two bounds beyond the same end leave
    a constant."""
    assert isinstance(op, Clamp)
    low = [op.low] if op.low > -128 or op.low == op.y.zero_point else []
    high = [op.high] if op.high < 127 else []
    levels = [quantized_level_of(op.x, (bound - op.y.zero_point) * op.y.scale) for bound in (*low, *high)]
    return " and ".join(map(str, levels)) or "no bound", any(-128 < level < 127 for level in levels)


def has_large_sum_scale(op: Op) -> tuple[object, bool]:
    """Whether the scale of a sum is large enough that requantization never shifts left."""
    assert isinstance(op, Add)
    largest = max(op.a.scale, op.b.scale)
    return f"{op.y.scale:g} of {largest:g}", op.rescale[2].shift <= 0


def has_supported_shapes(op: Op) -> tuple[object, bool]:
    """Whether the converter supports the shape of every tensor: limited rank, no empty axis."""
    shapes = [v.shape for v in (*op.operands, *op.results)]
    wrong = [shape for shape in shapes if len(shape) > MAX_RANK or 0 in shape]
    if isinstance(op, (Pad, Reshape, Slice, Transpose)) and not op.y.shape:
        wrong.append(())  # its parameters per axis would be empty tensors
    return list(wrong[0]) if wrong else "supported shapes", not wrong


def both_symmetric(op: Op) -> tuple[object, bool]:
    """Whether both operands of a matrix product have the zero point 0."""
    assert isinstance(op, BatchMatmul)
    quants = [v.type.quant for v in (op.a, op.b)]
    zero_points = [q.zero_point if isinstance(q, PerTensor) else None for q in quants]
    return " and ".join(map(str, zero_points)), zero_points == [0, 0]


def has_short_stride(op: Op) -> tuple[object, bool]:
    """Whether the stride of a transposed convolution is short and leaves no gaps between kernels."""
    assert isinstance(op, TransposeConv2d)
    limits = (min(MAX_TRANSPOSE_CONV_STRIDE, k) for k in op.kernel)
    fits = all(s <= limit for s, limit in zip(op.stride, limits, strict=True))
    return f"{op.stride} for a kernel of {op.kernel}", fits


def has_little_padding(op: Op) -> tuple[object, bool]:
    """Whether the padding of a transposed convolution is smaller than its kernel."""
    assert isinstance(op, TransposeConv2d)
    fits = all(p < k for p, k in zip(op.padding, (*op.kernel, *op.kernel), strict=True))
    return f"{op.padding} for a kernel of {op.kernel}", fits


def has_supported_resize_factor(op: Op) -> tuple[object, bool]:
    """Whether an image grows by a supported factor. With aligned corners, the distance between the corner
    pixels counts."""
    assert isinstance(op, Resize)
    less = int(op.align_corners)
    axes = [(before - less, after - less) for before, after in zip(op.x.shape[1:3], op.size, strict=True)]
    fits = all(before > 0 and after in [before * f for f in RESIZE_FACTORS] for before, after in axes)
    return " and ".join(f"{after}/{before}" for before, after in axes), fits


def has_supported_resize_mode(op: Op) -> tuple[object, bool]:
    """Whether the NPU supports the corner alignment of a resize."""
    assert isinstance(op, Resize)
    mode = "align_corners" if op.align_corners else "half_pixel" if op.half_pixel else "neither"
    return mode, (mode == "neither") == isinstance(op, ResizeNearest)


def has_few_softmax_channels(op: Op) -> tuple[object, bool]:
    """Whether the axis of a softmax is short enough."""
    channels = op.results[0].shape[-1]
    return channels, channels <= MAX_SOFTMAX_CHANNELS


def has_few_softmax_elements(op: Op) -> tuple[object, bool]:
    """Whether a softmax has few enough elements."""
    elements = op.results[0].type.elements
    return elements, elements <= MAX_SOFTMAX_ELEMENTS


def has_few_softmax_rows(op: Op) -> tuple[object, bool]:
    """Whether a softmax has few enough rows."""
    rows = math.prod(op.results[0].shape[:-1])
    return rows, rows <= MAX_SOFTMAX_ROWS
