# SPDX-License-Identifier: Apache-2.0
"""The limits of Ethos-U and the predicates that check them, all verified with Vela 5.2."""

from __future__ import annotations

import math

from pillion.devices.device import Predicate
from pillion.devices.predicates import weights_and_bias
from pillion.ir.numerics import row_magnitudes
from pillion.ir.op import Op
from pillion.ir.types import Shape
from pillion.ops import (
    AvgPool2d,
    Conv2d,
    DepthwiseConv2d,
    Function,
    Lut,
    Mean,
    Slice,
    Transpose,
)
from pillion.ops.reduce import Reduction
from pillion.ops.resize import Resize, ResizeBilinear
from pillion.ops.transpose_conv import TransposeConv2d

MAX_RANK = 6
"""The largest rank that Vela's raw output can represent."""
MAX_EXTENT = 65536
"""The largest height, width and number of channels of a tensor."""
MAX_STRIDE = 3
MAX_WEIGHT_SUM = 127 * 65536
"""The largest sum of the weights' magnitudes of one result channel."""
MAX_POOL_HEIGHT = 256
MAX_POOL_SIZE = 256 * 256
MAX_PADDED_AVERAGE = 8
"""The largest kernel side of an average pool with padding."""
MAX_MEAN_AXIS = 4096
"""The longest axis of a mean."""
MAX_MEAN = 1 << 20
"""The most elements of one mean. Vela allows 2^24, but takes minutes from 2^21 on."""
MAX_ROWS = 65536
"""The most rows of a softmax."""
MAX_MOVED = 65536
"""The largest product of all axes except the two shortest, for transpositions of four or more axes."""
FACTORS = (2, 4, 8)
"""The resize factors, the same for both directions."""
HALF_PIXEL_FACTORS = (2,)
FUNCTIONS = (
    Function.ABS,
    Function.EXP,
    Function.HARDSWISH,
    Function.LEAKY_RELU,
    Function.LOG,
    Function.NEG,
    Function.RSQRT,
    Function.SIGMOID,
    Function.SQUARE,
    Function.TANH,
    Function.CLAMP,
)


def image_of(shape: Shape) -> Shape:
    """Returns a shape as images, rows, columns and channels, as the NPU treats it: missing leading axes are
    1, additional ones become images."""
    filled = (1,) * (4 - len(shape)) + shape
    return (math.prod(filled[:-3]), *filled[-3:])


def has_supported_shapes(op: Op) -> tuple[object, bool]:
    """Whether every tensor has 1 to MAX_RANK axes, each of 1 to MAX_EXTENT."""
    shapes = [v.shape for v in (*op.operands, *op.results)]
    wrong = [s for s in shapes if not 1 <= len(s) <= MAX_RANK or not all(1 <= d <= MAX_EXTENT for d in s)]
    return list(wrong[0]) if wrong else "supported shapes", not wrong


def has_supported_broadcast(op: Op) -> tuple[object, bool]:
    """Whether operands of more than four axes have the result's shape: Vela 5.2 broadcasts others
    incorrectly."""
    result = op.results[0].shape
    shapes = [v.shape for v in op.operands]
    shown = " and ".join(str(list(shape)) for shape in shapes)
    return shown, len(result) <= 4 or all(shape == result for shape in shapes)


def has_supported_strides(op: Op) -> tuple[object, bool]:
    """Whether Vela supports the stride of a convolution: up to MAX_STRIDE, or longer without groups, padding
    and dilation. Without groups, the stride along an axis whose result has one element does not count."""
    assert isinstance(op, (Conv2d, DepthwiseConv2d))
    is_ungrouped = isinstance(op, Conv2d) and op.groups == 1
    steps = [
        step for step, size in zip(op.stride, op.y.shape[1:3], strict=True) if size > 1 or not is_ungrouped
    ]
    short = max(steps, default=1) <= MAX_STRIDE
    plain = is_ungrouped and op.dilation == (1, 1) and not any(op.padding)
    return "x".join(map(str, op.stride)), short or plain


def has_small_weight_sums(op: Op) -> tuple[object, bool]:
    """Whether the magnitudes of each result channel's weights sum to at most MAX_WEIGHT_SUM, so that the
    NPU's accumulators cannot overflow."""
    weights, _ = weights_and_bias(op)
    if not weights.is_constant:
        return "computed", False
    last = isinstance(op, DepthwiseConv2d)
    rows = (
        weights.constant.reshape(-1, weights.shape[-1]).T
        if last
        else weights.constant.reshape(weights.shape[0], -1)
    )
    largest = int(row_magnitudes(rows).max(initial=0))
    return largest, largest <= MAX_WEIGHT_SUM


def has_supported_transposed_stride(op: Op) -> tuple[object, bool]:
    """Whether a transposed convolution has the stride 1 or 2 in both directions, and a kernel that leaves no
    gaps."""
    assert isinstance(op, TransposeConv2d)
    fits = op.stride in ((1, 1), (2, 2)) and min(op.kernel) >= op.stride[0]
    return f"{op.stride} for a kernel of {op.kernel}", fits


def no_output_padding(op: Op) -> tuple[object, bool]:
    """Whether a transposed convolution has no output padding."""
    assert isinstance(op, TransposeConv2d)
    return op.output_padding, not any(op.output_padding)


def has_small_pool_window(op: Op) -> tuple[object, bool]:
    """Whether a pool's window is small enough, in height and in size."""
    height, width = op.attributes["kernel"]
    return f"{height}x{width}", height <= MAX_POOL_HEIGHT and height * width <= MAX_POOL_SIZE


def has_supported_average_padding(op: Op) -> tuple[object, bool]:
    """Whether an average pool has no padding, or a small window and stride."""
    assert isinstance(op, AvgPool2d)
    small = max(op.kernel) <= MAX_PADDED_AVERAGE and max(op.stride) <= MAX_STRIDE
    return f"{op.kernel} with the padding {op.padding}", not any(op.padding) or small


def has_supported_mean_axes(op: Op) -> tuple[object, bool]:
    """Whether a mean has one image, and reduces channels only if rows, columns or channels are 1."""
    assert isinstance(op, Mean)
    images, *image = image_of(op.x.shape)
    fill = len(op.x.shape) - 4
    reduced = {axis - fill for axis in op.axes}
    over_channels = 3 in reduced and 1 not in image
    longest = max((op.x.shape[axis] for axis in op.axes), default=1)
    small = op.count <= MAX_MEAN and longest <= MAX_MEAN_AXIS
    return f"axes {op.axes} of {list(op.x.shape)}", images == 1 and not over_channels and small


def has_few_softmax_rows(op: Op) -> tuple[object, bool]:
    """Whether a softmax has few enough rows."""
    rows = math.prod(op.results[0].shape[:-1])
    return rows, rows <= MAX_ROWS


def reduces_outermost_axes(op: Op) -> tuple[object, bool]:
    """Whether the axes of a reduction are the outermost ones, without gaps, in at most four axes: Vela 5.2
    repeats some results of others."""
    assert isinstance(op, Reduction)
    outside = math.prod(op.x.shape[: min(op.axes)]) if op.axes else 1
    gaps = [
        a
        for a in range(min(op.axes, default=0), max(op.axes, default=0))
        if a not in op.axes and op.x.shape[a] > 1
    ]
    return f"axes {op.axes} of {list(op.x.shape)}", outside == 1 and not gaps and op.x.type.rank <= 4


def sums_one_axis(op: Op) -> tuple[object, bool]:
    """Whether a sum reduces one axis, and keeps it if it is the last: Vela 5.2 ignores other axes, and takes
    the axis before the last for channels."""
    assert isinstance(op, Reduction)
    last = op.axes == (op.x.type.rank - 1,)
    return f"axes {op.axes} of {list(op.x.shape)}", len(op.axes) == 1 and (op.keepdims or not last)


def has_supported_resize_factor(op: Op) -> tuple[object, bool]:
    """Whether an image is one pixel, or grows by the same supported factor in both directions."""
    assert isinstance(op, Resize)
    before, after = op.x.shape[1:3], op.size
    shown = " and ".join(f"{b}/{a}" for a, b in zip(before, after, strict=True))
    if before == (1, 1):
        return shown, True
    less = int(op.align_corners)
    half = isinstance(op, ResizeBilinear) and op.half_pixel
    allowed = HALF_PIXEL_FACTORS if half else FACTORS
    if tuple(before) == tuple(after) and not half:
        return shown, True
    factors = {
        (b - less) / (a - less) if a > less else 0.0
        for a, b in zip(before, after, strict=True)
        if (a, b) != (1, 1)
    }
    return shown, len(factors) == 1 and factors.pop() in allowed


def one_image(op: Op) -> tuple[object, bool]:
    """Whether a resize has one image, one-pixel images, or an unchanged size."""
    assert isinstance(op, Resize)
    return op.x.shape[0], op.x.shape[0] == 1 or op.x.shape[1:3] in ((1, 1), tuple(op.size))


def has_supported_slice_steps(op: Op) -> tuple[object, bool]:
    """Whether a slice has steps along rows and columns only."""
    assert isinstance(op, Slice)
    fill = 4 - len(op.step)
    other_steps = [step for axis, step in enumerate(op.step) if axis + fill not in (1, 2)]
    return op.step, set(other_steps) <= {1} and min(op.step) >= 1


def has_supported_transposition(op: Op) -> tuple[object, bool]:
    """Whether a transposition permutes only rows, columns and channels of one image, or the product of all
    axes except the two shortest is small."""
    assert isinstance(op, Transpose)
    shape, order = op.x.shape, op.order
    outer = max(len(shape) - 3, 0)
    one_image = math.prod(shape[:outer]) == 1 and order[:outer] == tuple(range(outer))
    is_identity = order == tuple(range(len(shape)))
    longest = math.prod(sorted(shape, reverse=True)[:-2])
    return f"{longest} of {list(shape)}", one_image or is_identity or longest <= MAX_MOVED


def known_function(functions: tuple[Function, ...]) -> Predicate:
    """Returns a predicate: the function of a lookup table is one of these."""

    def predicate(op: Op) -> tuple[object, bool]:
        assert isinstance(op, Lut)
        return op.function.value, op.function in functions

    return predicate
