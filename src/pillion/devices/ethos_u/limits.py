# SPDX-License-Identifier: Apache-2.0
"""The limits of Ethos-U55 and U65, most of which hold for U85, too; all verified with Vela 5.2."""

from __future__ import annotations

import math
from typing import Any

from pillion.devices import predicates
from pillion.devices.device import Found, limit
from pillion.devices.ethos_u.vela import is_vela_installed
from pillion.ir.numerics import row_magnitudes
from pillion.ir.op import Op
from pillion.ir.types import Shape
from pillion.ops import AvgPool2d, Conv2d, DepthwiseConv2d, Function, Mean, Slice, Transpose
from pillion.ops.layer import Layer
from pillion.ops.pool import Pool
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
"""The resize factors, equal for both directions."""
HALF_PIXEL_FACTORS = (2,)
FUNCTIONS = (
    *(Function.ABS, Function.EXP, Function.HARDSWISH, Function.LEAKY_RELU, Function.LOG, Function.NEG),
    *(Function.RSQRT, Function.SIGMOID, Function.SQUARE, Function.TANH, Function.CLAMP),
)


TABULATED = (Function.SILU, Function.GELU, Function.GELU_TANH, Function.ELU, Function.SOFTPLUS)
"""The functions that run as tables of Pillion's, in the place of a leaky ReLU's."""


def image_of(shape: Shape) -> Shape:
    """Returns a shape as images, rows, columns and channels, as the NPU treats it: missing leading axes are
    1, additional ones become images."""
    filled = (1,) * (4 - len(shape)) + shape
    return (math.prod(filled[:-3]), *filled[-3:])


@limit(f"1 to {MAX_RANK} axes of 1 to {MAX_EXTENT}")
def supported_shapes(op: Op) -> Found:
    """Every tensor has axes, neither too many nor too long ones."""
    shapes = [v.shape for v in (*op.operands, *op.results)]
    wrong = [s for s in shapes if not 1 <= len(s) <= MAX_RANK or not all(1 <= d <= MAX_EXTENT for d in s)]
    return list(wrong[0]) if wrong else "supported shapes", not wrong


@limit("at most four axes, or no broadcast")
def supported_broadcast(op: Op) -> Found:
    """Vela 5.2 broadcasts operands of more axes incorrectly."""
    result = op.results[0].shape
    shapes = [v.shape for v in op.operands]
    shown = " and ".join(str(list(shape)) for shape in shapes)
    return shown, len(result) <= 4 or all(shape == result for shape in shapes)


@limit(
    f"at most {MAX_STRIDE}; for conv2d without groups, any if there is no padding or dilation, or along an axis of one result"
)
def supported_strides(op: Conv2d | DepthwiseConv2d) -> Found:
    """Vela splits convolutions with longer strides."""
    is_ungrouped = isinstance(op, Conv2d) and op.groups == 1
    steps = [
        step for step, size in zip(op.stride, op.y.shape[1:3], strict=True) if size > 1 or not is_ungrouped
    ]
    short = max(steps, default=1) <= MAX_STRIDE
    plain = is_ungrouped and op.dilation == (1, 1) and not any(op.padding)
    return "x".join(map(str, op.stride)), short or plain


@limit(f"magnitudes that sum to at most {MAX_WEIGHT_SUM} in each result channel")
def small_weight_sums(op: Layer) -> Found:
    """The NPU's accumulators cannot overflow."""
    if not op.weights.is_constant:
        return "computed", False
    largest = int(row_magnitudes(op.weights_per_output).max(initial=0))
    return largest, largest <= MAX_WEIGHT_SUM


@limit("1 or 2 in both directions, and at most the kernel")
def transposed_stride(op: TransposeConv2d) -> Found:
    """The kernel of a transposed convolution leaves no gaps."""
    fits = op.stride in ((1, 1), (2, 2)) and min(op.kernel) >= op.stride[0]
    return f"{op.stride} for a kernel of {op.kernel}", fits


@limit(f"height at most {MAX_POOL_HEIGHT}, size at most {MAX_POOL_SIZE}")
def small_pool_window(op: Pool) -> Found:
    """Vela accepts the window of a pool."""
    height, width = op.kernel
    return f"{height}x{width}", height <= MAX_POOL_HEIGHT and height * width <= MAX_POOL_SIZE


@limit(f"no padding, or kernel sides of at most {MAX_PADDED_AVERAGE} and strides of at most {MAX_STRIDE}")
def average_padding(op: AvgPool2d) -> Found:
    """Vela computes the windows of an average that reach into the border."""
    small = max(op.kernel) <= MAX_PADDED_AVERAGE and max(op.stride) <= MAX_STRIDE
    return f"{op.kernel} with the padding {op.padding}", not any(op.padding) or small


@limit(
    f"one image; over channels only if rows, columns or channels are 1; axes of at most {MAX_MEAN_AXIS}, at most {MAX_MEAN} elements"
)
def mean_axes(op: Mean) -> Found:
    """Vela splits a mean into few operations."""
    images, *image = image_of(op.x.shape)
    fill = len(op.x.shape) - 4
    over_channels = 3 in {axis - fill for axis in op.axes} and 1 not in image
    longest = max((op.x.shape[axis] for axis in op.axes), default=1)
    small = op.count <= MAX_MEAN and longest <= MAX_MEAN_AXIS
    return f"axes {op.axes} of {list(op.x.shape)}", images == 1 and not over_channels and small


@limit("the outermost axes without gaps, of at most four")
def outermost_axes(op: Reduction) -> Found:
    """Vela 5.2 computes reductions over inner axes incorrectly: it repeats some results."""
    outside = math.prod(op.x.shape[: min(op.axes)]) if op.axes else 1
    between = range(min(op.axes, default=0), max(op.axes, default=0))
    gaps = [a for a in between if a not in op.axes and op.x.shape[a] > 1]
    return f"axes {op.axes} of {list(op.x.shape)}", outside == 1 and not gaps and op.x.type.rank <= 4


@limit("one axis, with keepdims if it is the last")
def one_summed_axis(op: Reduction) -> Found:
    """Vela 5.2 ignores other axes of a sum, and takes the axis before the last for channels."""
    last = op.axes == (op.x.type.rank - 1,)
    return f"axes {op.axes} of {list(op.x.shape)}", len(op.axes) == 1 and (op.keepdims or not last)


def can_exchange_tables() -> bool:
    """Whether Vela is installed, in whose result Pillion exchanges tables."""
    return is_vela_installed()


@limit("values within 32 bits; a table of numbers only if Vela is installed")
def known_table(op: Any) -> Found:
    """The function has a value for every int8 input. Numbers of a table replace those of a function in Vela's result."""
    if op.function is not Function.TABLE:
        return predicates.require_total_function.predicate(op)
    return "a table", can_exchange_tables()


def resize_text(op: Resize) -> str:
    """Returns the sides of a resize as text: `after/before` along each axis."""
    return " and ".join(f"{after}/{before}" for before, after in zip(op.x.shape[1:3], op.size, strict=True))


@limit(
    f"scaled by {', '.join(map(str, FACTORS))} in both directions (bilinear with half pixels: 2), or from one pixel"
)
def resize_factor(op: Resize) -> Found:
    """An image is one pixel, or grows by the same supported factor in both directions."""
    before, less = op.x.shape[1:3], int(op.align_corners)
    half = isinstance(op, ResizeBilinear) and op.half_pixel
    if before == (1, 1) or (before == op.size and not half):
        return resize_text(op), True
    pairs = [pair for pair in zip(before, op.size, strict=True) if pair != (1, 1)]
    factors = {(b - less) / (a - less) if a > less else 0.0 for a, b in pairs}
    allowed = HALF_PIXEL_FACTORS if half else FACTORS
    return resize_text(op), len(factors) == 1 and factors.pop() in allowed


@limit("one image, one-pixel images, or an unchanged size")
def resized_images(op: Resize) -> Found:
    """Vela resizes the first of several images only."""
    return op.x.shape[0], op.x.shape[0] == 1 or op.x.shape[1:3] in ((1, 1), op.size)


@limit("steps along rows and columns only")
def slice_steps(op: Slice) -> Found:
    """A slice leaves out no channels and no images between others."""
    fill = 4 - len(op.step)
    other_steps = [step for axis, step in enumerate(op.step) if axis + fill not in (1, 2)]
    return op.step, set(other_steps) <= {1} and min(op.step) >= 1


@limit(
    f"the last three axes of one image; or all axes except the two shortest, multiplied, at most {MAX_MOVED}"
)
def transposed_extents(op: Transpose) -> Found:
    """Vela splits other transpositions into few operations."""
    shape, order = op.x.shape, op.order
    outer = max(len(shape) - 3, 0)
    one_image = math.prod(shape[:outer]) == 1 and order[:outer] == tuple(range(outer))
    is_identity = order == tuple(range(len(shape)))
    longest = math.prod(sorted(shape, reverse=True)[:-2])
    return f"{longest} of {list(shape)}", one_image or is_identity or longest <= MAX_MOVED
