# SPDX-License-Identifier: Apache-2.0
"""The DSP kernels of convolution and depthwise convolution."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from pillion.emitters.c import subpixel
from pillion.emitters.c.accumulators import OutputChannels, channels_of
from pillion.emitters.c.channel_scaling import scale_channels
from pillion.emitters.c.dsp import conv_cost, pack, winograd
from pillion.emitters.c.dsp.linear import DOT, LINEAR, linear_params, scratch_linear
from pillion.emitters.c.kernel import CallCost, Kernel, Params
from pillion.emitters.c.kernel_conditions import Condition, equals, multiple_of, within
from pillion.emitters.c.kernel_library import DSP
from pillion.emitters.c.portable.conv import image, plain_1x1, swap_height_and_width, window
from pillion.ir.types import Pair, Value
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d, DepthwiseConv2d

BLOCK_BYTES = 24
"""The size of four widened inputs of three pixels."""
MOST_LINEAR_PIXELS = 2
FEW_PIXEL_COUNTS = (1, 2, 4)
"""Pixel counts for which computing single pixels is faster than groups of three with unused ones."""
SMALL_RING = 8192
"""The size up to which a ring of widened rows may exceed an eighth of the image and result, but never their sum."""


Window = tuple[Pair, Pair, Pair]
DEPTHWISE_WINDOWS: dict[str, Window | None] = {
    "depthwise_3x3": ((3, 3), (1, 1), (1, 1)),
    "depthwise_3x3_stride2": ((3, 3), (2, 2), (1, 1)),
    "depthwise_5x5": ((5, 5), (1, 1), (1, 1)),
    "depthwise_5x5_stride2": ((5, 5), (2, 2), (1, 1)),
    "depthwise_any": None,
}
"""Variant → the kernel, stride and dilation that it is specialized for; None for any."""

ONE_GROUP: tuple[Condition[Conv2d], ...] = (equals("groups", 1), DOT)
ANY_WINDOW: tuple[Condition[Conv2d], ...] = (multiple_of("in_channels", 4), *ONE_GROUP)
"""Input channels are a multiple of four, which one 32-bit load reads."""


def ring_rows(op: Conv2d) -> int:
    """Returns the rows of the padded image that the windows of three adjacent outputs read."""
    between = 2 if op.y.shape[2] == 1 else 1
    return op.kernel[0] + between * op.stride[0]


def ring_bytes(op: Conv2d) -> int:
    """Returns the size of the ring of widened image rows, two bytes for each element."""
    columns = (op.y.shape[2] - 1) * op.stride[1] + op.kernel[1]
    return 2 * ring_rows(op) * columns * op.in_channels


def ring_pays(op: Conv2d) -> Iterator[Verdict]:
    """Checks whether a ring pays: windows must overlap, and the ring must be small relative to the image."""
    overlaps = any(k > s for k, s in zip(op.kernel, op.stride, strict=True))
    image = op.x.type.size_bytes + op.y.type.size_bytes
    most = max(min(SMALL_RING, image), image // 8)
    yield Verdict("dilation", op.dilation == (1, 1), "1", str(op.dilation))
    yield Verdict("windows", overlaps, "larger than the stride", f"{op.kernel}, stride {op.stride}")
    yield within("ring", ring_bytes(op), most=most, unit="bytes")


def dot_params(op: Conv2d) -> Params:
    """Returns the packed channels as parameters."""
    return pack.pack_dot(channels_of(op))


def thin_channels(op: Conv2d) -> OutputChannels:
    """Returns the weights in the input order of conv2d_thin_s8_dsp.c: the complete words of every kernel row, then
    the remaining bytes."""
    row_bytes = op.kernel[1] * op.in_channels
    order = np.arange(op.kernel[0] * row_bytes).reshape(op.kernel[0], row_bytes)
    whole = row_bytes // 4 * 4
    channels = channels_of(op)
    inputs = np.concatenate([order[:, :whole].reshape(-1), order[:, whole:].T.reshape(-1)])
    return replace(channels, weights=channels.weights[:, inputs])


def scratch_ring(op: Conv2d) -> int:
    """Returns the scratch bytes of the ring kernel: those of 1x1, then the ring."""
    return scratch_1x1(op) + ring_bytes(op)


def scratch_1x1(op: Conv2d) -> int:
    """Returns the scratch bytes of the 1x1 kernel: the widened blocks, and a jump for each iteration of the loop
    over them."""
    pairing = pack.pair_channels(scale_channels(channels_of(op)))
    return BLOCK_BYTES * pairing.steps + 4 * pairing.jumps


def scratch_conv(op: Conv2d) -> int:
    """Returns the scratch bytes of the kernel of any window: those of 1x1, then a pixel of zero points."""
    return scratch_1x1(op) + op.in_channels


def scratch_thin(op: Conv2d) -> int:
    """Returns the scratch bytes of the thin kernel: those of 1x1, then three windows of bytes."""
    return scratch_1x1(op) + 3 * op.weights_per_output.shape[1]


def has_window(op: DepthwiseConv2d, window: Window | None) -> Verdict:
    """Checks whether a depthwise convolution has the kernel's window."""
    got = (op.kernel, op.stride, op.dilation)
    return Verdict("window", window in (got, None), str(window), str(got))


def outputs_computed(width: int) -> int:
    """Returns the outputs that the kernel computes for a row: groups of four, then two or four more."""
    return width // 4 * 4 + (0, 2, 2, 4)[width % 4]


def is_transposed(op: DepthwiseConv2d) -> bool:
    """Whether groups of four fit the height better than the width; a row costs about one output of overhead."""
    h, w = op.y.shape[1:3]
    return (outputs_computed(h) + 1) * w < (outputs_computed(w) + 1) * h


def depthwise_params(op: DepthwiseConv2d) -> Params:
    """Returns the parameters of the depthwise kernels, with heights and widths swapped if groups of four fit the
    height better."""
    transposed, channels = is_transposed(op), channels_of(op)
    sizes: Params = {**image(op), **window(op)}
    if transposed:
        weights = channels.weights.reshape(-1, *op.kernel).swapaxes(1, 2)
        channels = replace(channels, weights=weights.reshape(channels.weights.shape))
        sizes = swap_height_and_width(sizes)
    return {**sizes, "transposed": int(transposed), **pack.pack_depthwise(channels)}


def scratch_depthwise(op: DepthwiseConv2d) -> int:
    """Returns the scratch bytes of the depthwise kernels: the plane of one channel."""
    axes = list(zip(op.y.shape[1:3], op.stride, op.kernel, op.dilation, strict=True))
    (out_h, *rows), (out_w, *columns) = axes[::-1] if is_transposed(op) else axes
    height = (out_h - 1) * rows[0] + (rows[1] - 1) * rows[2] + 1
    width = (outputs_computed(out_w) - 1) * columns[0] + (columns[1] - 1) * columns[2] + 1
    return height * (2 * width + 3 & ~3)


DEPTHWISE_WORK = {
    "depthwise_3x3": (151.3, 7.5, 2.48, 14.3, 15.5),
    "depthwise_3x3_stride2": (148.2, 7.3, 2.27, 17.4, 17.2),
    "depthwise_5x5": (235.7, 8.6, 2.24, 10.2, 27.9),
    "depthwise_5x5_stride2": (235.5, 7.1, 2.24, 14.4, 30.2),
}
"""Instructions by kernel, fitted to counts in the emulator: for a channel, its rows and elements of inputs, rows of
outputs, and outputs computed."""


def depthwise_work(op: DepthwiseConv2d, name: str) -> float:
    """Estimates the instructions of a depthwise kernel."""
    (in_h, in_w), (out_h, out_w) = op.x.shape[1:3], op.y.shape[1:3]
    if is_transposed(op):
        in_h, in_w, out_h, out_w = in_w, in_h, out_w, out_h
    counts = (1, in_h, in_h * in_w, out_h, out_h * outputs_computed(out_w))
    return op.x.shape[0] * op.out_channels * float(np.dot(DEPTHWISE_WORK[name], counts))


def in_place_depthwise(op: DepthwiseConv2d) -> tuple[Value, ...]:
    """Returns the image if no result overwrites unread inputs: each channel is copied before its results are
    written, but later images of a batch are not."""
    fits = op.depth_multiplier == 1 and (op.x.shape[0] == 1 or op.x.shape == op.y.shape)
    return (op.x,) if fits and op.y.type.size_bytes <= op.x.type.size_bytes else ()


def depthwise_kernel(name: str, window: Window | None) -> Kernel:
    """Builds the depthwise kernel for one window, or for any."""
    costs: dict[str, Any] = (
        {"work": lambda op: depthwise_work(op, name)}
        if name in DEPTHWISE_WORK
        else {"call_cost": CallCost(100.0, channel=115.0, reread=2.4)}
    )
    return DSP.kernel(
        DepthwiseConv2d,
        f"{name}_s8",
        depthwise_params,
        requires=(lambda op: has_window(op, window), DOT),
        name=name,
        scratch_bytes=scratch_depthwise,
        in_place=in_place_depthwise,
        also=("depthwise", "clamp"),
        **costs,
    )


def one_or_two_pixels(op: Conv2d) -> Iterator[Verdict]:
    """Checks whether a convolution is a fully connected layer over at most two pixels; for three, 1x1 is faster."""
    n, h, w, _ = op.y.shape
    pointwise = (op.kernel, op.stride, op.padding) == ((1, 1), (1, 1), (0, 0, 0, 0))
    everything = (op.kernel, (h, w), op.padding) == (op.x.shape[1:3], (1, 1), (0, 0, 0, 0))
    got = f"{op.kernel} of {op.x.shape[1:3]}, padding {op.padding}"
    yield Verdict("window", pointwise or everything, "1x1 or the whole image", got)
    yield within("pixels", n * h * w, most=MOST_LINEAR_PIXELS)


def pixels_as_rows(op: Conv2d) -> Params:
    """Returns the parameters of the fully connected kernel with pixels as rows."""
    return linear_params(channels_of(op), math.prod(op.y.shape[:3]))


def few_pixels(op: Conv2d) -> Iterator[Verdict]:
    """Checks whether a convolution computes so few pixels without padding that each pays as a row of a fully
    connected layer."""
    n, h, w, _ = op.y.shape
    is_few = n == 1 and h * w in FEW_PIXEL_COUNTS
    yield Verdict("pixels", is_few, "1, 2 or 4 of one image", f"{n} x {h} x {w}")
    yield Verdict("padding", not any(op.padding), "none", str(op.padding))


def few_pixels_params(op: Conv2d) -> Params:
    """Returns the parameters of a convolution of few pixels."""
    _, out_h, out_w, _ = op.y.shape
    _, _, in_w, in_c = op.x.shape
    is_whole = op.dilation[1] == 1
    return {
        **pixels_as_rows(op),
        **{"windows": out_h, "window_row_step": op.stride[0] * in_w * in_c},
        **{"row_windows": out_w, "window_step": op.stride[1] * in_c},
        **{"kernel_rows": op.kernel[0], "kernel_row_step": op.dilation[0] * in_w * in_c},
        **{"pieces": 1 if is_whole else op.kernel[1], "piece_step": op.dilation[1] * in_c},
        **{"piece_bytes": in_c * (op.kernel[1] if is_whole else 1), "gathered": scratch_linear(op)},
    }


def scratch_few_pixels(op: Conv2d) -> int:
    """Returns the scratch bytes of a convolution of few pixels: those of the fully connected layer, then the
    windows."""
    _, out_h, out_w, _ = op.y.shape
    return scratch_linear(op) + out_h * out_w * op.weights_per_output.shape[1]


THREE_PIXELS = CallCost(185.0, pixels=3, remainder=0.75)
"""Groups of three pixels share each load of weights; a remainder of one or two costs about as much as three."""

CONV_KERNEL = DSP.kernel(
    Conv2d,
    "conv2d_s8",
    dot_params,
    requires=ANY_WINDOW,
    name="conv2d",
    scratch_bytes=scratch_conv,
    work=conv_cost.gathering_work,
    also=("dot", "clamp"),
)

KERNELS: tuple[Kernel, ...] = (
    DSP.kernel(
        Conv2d,
        LINEAR,
        pixels_as_rows,
        requires=(one_or_two_pixels, *ONE_GROUP),
        name="conv2d_whole",
        scratch_bytes=scratch_linear,
    ),
    DSP.kernel(
        Conv2d,
        "conv2d_1x1_s8",
        lambda op: {**dot_params(op), "pixels": math.prod(op.y.shape[:3])},
        requires=(plain_1x1, *ANY_WINDOW),
        name="conv2d_1x1",
        scratch_bytes=scratch_1x1,
        call_cost=THREE_PIXELS,
        also=("dot", "dot_1", "clamp"),
    ),
    DSP.kernel(
        Conv2d,
        "conv2d_lone_s8",
        few_pixels_params,
        requires=(few_pixels, *ONE_GROUP),
        name="conv2d_lone",
        scratch_bytes=scratch_few_pixels,
        also=("linear_s8", "clamp"),
    ),
    winograd.KERNEL,
    DSP.kernel(
        Conv2d,
        "conv2d_ring_s8",
        lambda op: {**dot_params(op), "ring_rows": ring_rows(op)},
        requires=(ring_pays, *ANY_WINDOW),
        name="conv2d_ring",
        scratch_bytes=scratch_ring,
        work=lambda op: conv_cost.ring_work(op, ring_rows(op)),
        also=("dot", "clamp"),
    ),
    CONV_KERNEL,
    DSP.kernel(
        Conv2d,
        "conv2d_thin_s8",
        lambda op: pack.pack_dot(thin_channels(op)),
        requires=ONE_GROUP,
        name="conv2d_thin",
        scratch_bytes=scratch_thin,
        call_cost=CallCost(400.0, pixels=3, remainder=2.3),
        also=("dot", "clamp"),
    ),
    subpixel.kernel(DSP, CONV_KERNEL, "conv2d_s8", "dot", "clamp"),
    *(depthwise_kernel(name, window) for name, window in DEPTHWISE_WINDOWS.items()),
)
