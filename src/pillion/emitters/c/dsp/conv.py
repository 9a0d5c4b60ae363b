# SPDX-License-Identifier: Apache-2.0
"""The DSP kernels of convolution and depthwise convolution."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pillion.emitters.c.accumulators import Channels, channels_of
from pillion.emitters.c.dsp import pack, winograd, work
from pillion.emitters.c.dsp.linear import LINEAR, judge_operands, linear_params
from pillion.emitters.c.kernel import Call, CallCost, Kernel, Params, Routine
from pillion.emitters.c.library import DSP
from pillion.emitters.c.rescaled import scale_channels
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Pair, Value
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.conv import Conv2d, Convolution, DepthwiseConv2d

BLOCK_BYTES = 24
"""Four inputs of three pixels, widened."""
FEW_PIXELS = 2
LONE_PIXELS = (1, 2, 4)
"""Pixels that take longer three at a time, one or two of them for nothing, than one by one."""
SMALL_RING = 8192
"""Bytes that a ring of widened rows may take if it is no larger than what is read and made: of a few rows of an image it may be."""


Window = tuple[Pair, Pair, Pair]
DEPTHWISE_WINDOWS: dict[str, Window | None] = {
    "depthwise_3x3": ((3, 3), (1, 1), (1, 1)),
    "depthwise_3x3_stride2": ((3, 3), (2, 2), (1, 1)),
    "depthwise_5x5": ((5, 5), (1, 1), (1, 1)),
    "depthwise_5x5_stride2": ((5, 5), (2, 2), (1, 1)),
    "depthwise_any": None,
}
"""Kernel, stride and dilation that a variant is made for."""

CONV_1X1 = DSP.routine("conv2d_1x1_s8", "dot", "dot_1", "clamp")
CONV = DSP.routine("conv2d_s8", "dot", "clamp")
CONV_RING = DSP.routine("conv2d_ring_s8", "dot", "clamp")
CONV_THIN = DSP.routine("conv2d_thin_s8", "dot", "clamp")
CONV_LONE = DSP.routine("conv2d_lone_s8", "linear_s8", "clamp")
DEPTHWISE = {name: DSP.routine(f"{name}_s8", "depthwise", "clamp") for name in DEPTHWISE_WINDOWS}
ROUTINES = (CONV_1X1, CONV, winograd.ROUTINE, CONV_RING, CONV_THIN, CONV_LONE, *DEPTHWISE.values())


def in_fours_of(op: Conv2d) -> Verdict:
    """Judges whether the input channels come in whole groups of four, which a load of 32 bits takes at once."""
    return Verdict("in_channels", op.in_channels % 4 == 0, "a multiple of 4", str(op.in_channels))


def takes_dot(op: Conv2d) -> tuple[Verdict, ...]:
    """Judges what any convolution needs to be dot products of whole windows."""
    operands = judge_operands(op)
    one_group = Verdict("groups", op.groups == 1, "1", str(op.groups))
    return (*operands, one_group, *(pack.dot_verdicts(channels_of(op)) if all_ok(operands) else ()))


def takes_1x1(op: Conv2d, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a convolution is one that the kernel of plain 1x1 windows computes exactly."""
    got = f"{op.kernel}, stride {op.stride}, padding {op.padding}"
    plain = (op.kernel, op.stride, op.padding) == ((1, 1), (1, 1), (0, 0, 0, 0))
    return (Verdict("window", plain, "1x1, stride 1, no padding", got), in_fours_of(op), *takes_dot(op))


def takes_conv(op: Conv2d, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a convolution is one that the kernel of any window computes exactly."""
    return (in_fours_of(op), *takes_dot(op))


def takes_thin(op: Conv2d, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a convolution of few input channels is one that the thin kernel computes exactly."""
    return takes_dot(op)


def calls_1x1(op: Conv2d, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the kernel of plain 1x1 windows."""
    n, h, w, _ = op.y.shape
    last = {"pixels": n * h * w, "in_c": op.in_channels, "low": op.low, "high": op.high}
    return (Call(CONV_1X1, {**pack.pack_dot(channels_of(op)), **last}, (op.x,), op.y),)


def window(op: Convolution) -> Params:
    """Gives the image, and the window without dilation."""
    batch, in_h, in_w, in_c = op.x.shape
    sizes = {"batch": batch, "in_h": in_h, "in_w": in_w, "in_c": in_c}
    sizes |= {"out_h": op.y.shape[1], "out_w": op.y.shape[2]}
    pairs = {"kernel": op.kernel, "stride": op.stride}
    sizes |= {f"{name}_{axis}": pair[i] for name, pair in pairs.items() for i, axis in enumerate("hw")}
    return {**sizes, "pad_top": op.padding[0], "pad_left": op.padding[1]}


def geometry(op: Convolution) -> Params:
    """Gives the image and the window, in the order of the params structs."""
    return {**window(op), "dilation_h": op.dilation[0], "dilation_w": op.dilation[1]}


def ring_rows(op: Conv2d) -> int:
    """Counts the rows of the padded image that the windows of three neighbouring outputs touch."""
    between = 2 if op.y.shape[2] == 1 else 1
    return op.kernel[0] + between * op.stride[0]


def ring_bytes(op: Conv2d) -> int:
    """Gives the size of the ring of widened image rows, two bytes an element."""
    columns = (op.y.shape[2] - 1) * op.stride[1] + op.kernel[1]
    return 2 * ring_rows(op) * columns * op.in_channels


def takes_ring(op: Conv2d, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a convolution is worth a ring: windows must share inputs, and the ring must be small beside the image."""
    overlaps = any(k > s for k, s in zip(op.kernel, op.stride, strict=True))
    image, size = op.x.type.size_bytes + op.y.type.size_bytes, ring_bytes(op)
    most = max(min(SMALL_RING, image), image // 8)
    return (
        Verdict("dilation", op.dilation == (1, 1), "1", str(op.dilation)),
        Verdict("windows", overlaps, "larger than the stride", f"{op.kernel}, stride {op.stride}"),
        Verdict("ring", size <= most, f"at most {most} bytes", str(size)),
        *takes_conv(op, arithmetic),
    )


def calls_window(op: Conv2d, routine: Routine, channels: Channels, place: Params) -> tuple[Call, ...]:
    """Gives the call of one of the kernels that gather windows, all of which have the same parameters."""
    bounds = {"in_zp": op.x.zero_point, "low": op.low, "high": op.high}
    return (Call(routine, {**pack.pack_dot(channels), **place, **bounds}, (op.x,), op.y),)


def thin_channels(op: Conv2d) -> Channels:
    """Gives weights with inputs in the order of conv2d_thin_s8_dsp.c: whole words of every kernel row, then what is left of them,
    byte by byte."""
    row_bytes = op.kernel[1] * op.in_channels
    order = np.arange(op.kernel[0] * row_bytes).reshape(op.kernel[0], row_bytes)
    whole = row_bytes // 4 * 4
    channels = channels_of(op)
    inputs = np.concatenate([order[:, :whole].reshape(-1), order[:, whole:].T.reshape(-1)])
    return replace(channels, weights=channels.weights[:, inputs])


def calls_conv(op: Conv2d, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the kernel of any window."""
    return calls_window(op, CONV, channels_of(op), geometry(op))


def calls_ring(op: Conv2d, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the kernel that keeps widened image rows in a ring."""
    return calls_window(op, CONV_RING, channels_of(op), {**window(op), "ring_rows": ring_rows(op)})


def scratch_ring(op: Conv2d) -> int:
    """Gives the scratch of the ring kernel: that of 1x1, then the ring."""
    return scratch_1x1(op) + ring_bytes(op)


def calls_thin(op: Conv2d, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the kernel for few input channels."""
    return calls_window(op, CONV_THIN, thin_channels(op), geometry(op))


def scratch_1x1(op: Conv2d) -> int:
    """Gives the scratch of the 1x1 kernel: the blocks, and a jump for each round of the loop over them."""
    pairing = pack.pair_channels(scale_channels(channels_of(op)))
    return BLOCK_BYTES * pairing.steps + 4 * pairing.jumps


def scratch_conv(op: Conv2d) -> int:
    """Gives the scratch of the kernel of any window: that of 1x1, then a pixel of zero points."""
    return scratch_1x1(op) + op.in_channels


def scratch_thin(op: Conv2d) -> int:
    """Gives the scratch of the thin kernel: that of 1x1, then three windows of bytes."""
    return scratch_1x1(op) + 3 * op.weights_per_output.shape[1]


def takes_depthwise(op: DepthwiseConv2d, window: Window | None) -> tuple[Verdict, ...]:
    """Judges whether a depthwise convolution has the kernel's window, and numbers for which the kernel is exact."""
    got = (op.kernel, op.stride, op.dilation)
    operands = judge_operands(op)
    numbers = pack.dot_verdicts(channels_of(op)) if all_ok(operands) else ()
    return (Verdict("window", window in (got, None), str(window), str(got)), *operands, *numbers)


def swapped(params: Params) -> Params:
    """Exchanges heights and widths in the parameters of a window."""
    other = {"_h": "_w", "_w": "_h", "_top": "_left", "_left": "_top"}
    ends = {key: next((end for end in other if key.endswith(end)), "") for key in params}
    return {key: params[key.removesuffix(end) + other.get(end, "")] for key, end in ends.items()}


def outputs_computed(width: int) -> int:
    """Counts the outputs that the kernel computes for a row of so many: fours, and then two or four more."""
    return width // 4 * 4 + (0, 2, 2, 4)[width % 4]


def is_transposed(op: DepthwiseConv2d) -> bool:
    """Whether fours fit the height better than the width. A row is worth about one output of overhead."""
    h, w = op.y.shape[1:3]
    return (outputs_computed(h) + 1) * w < (outputs_computed(w) + 1) * h


def calls_depthwise(op: DepthwiseConv2d, routine: Routine) -> tuple[Call, ...]:
    """Gives the call of a depthwise kernel. Where fours fit the height better than the width, both are exchanged."""
    transposed = is_transposed(op)
    channels = channels_of(op)
    if transposed:
        weights = channels.weights.reshape(-1, *op.kernel).swapaxes(1, 2)
        channels = replace(channels, weights=weights.reshape(channels.weights.shape))
    sizes = swapped(geometry(op)) if transposed else geometry(op)
    bounds = {"in_zp": op.x.zero_point, "low": op.low, "high": op.high, "out_c": op.out_channels}
    packed = pack.pack_depthwise(channels)
    params = {**sizes, **bounds, "rectified": packed["rectified"], "transposed": int(transposed), **packed}
    return (Call(routine, params, (op.x,), op.y),)


def scratch_depthwise(op: DepthwiseConv2d) -> int:
    """Gives the scratch of the depthwise kernels: the plane of one channel."""
    axes = list(zip(op.y.shape[1:3], op.stride, op.kernel, op.dilation, strict=True))
    (out_h, *rows), (out_w, *columns) = axes[::-1] if is_transposed(op) else axes
    height = (out_h - 1) * rows[0] + (rows[1] - 1) * rows[2] + 1
    width = (outputs_computed(out_w) - 1) * columns[0] + (columns[1] - 1) * columns[2] + 1
    return height * (2 * width + 3 & ~3)


def in_place_depthwise(op: DepthwiseConv2d) -> tuple[Value, ...]:
    """Gives the image, whose memory the result may take over: a channel is copied before its results are written, but later images
    must not be overwritten early."""
    fits = op.depth_multiplier == 1 and (op.x.shape[0] == 1 or op.x.shape == op.y.shape)
    return (op.x,) if fits and op.y.type.size_bytes <= op.x.type.size_bytes else ()


def depthwise(name: str, window: Window | None) -> Kernel:
    """Makes the row of a depthwise kernel for one window, or for any."""
    return DSP.row(
        DepthwiseConv2d,
        lambda op, _: calls_depthwise(op, DEPTHWISE[name]),
        lambda op, _: takes_depthwise(op, window),
        name=name,
        scratch_bytes=scratch_depthwise,
        in_place=in_place_depthwise,
        each_call=CallCost(100.0, channel=115.0, seen=2.4),
    )


def takes_whole(op: Conv2d, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a convolution is a fully connected layer over its pixels; where there are three, 1x1 is faster."""
    n, h, w, _ = op.y.shape
    pointwise = (op.kernel, op.stride, op.padding) == ((1, 1), (1, 1), (0, 0, 0, 0))
    everything = (op.kernel, (h, w), op.padding) == (op.x.shape[1:3], (1, 1), (0, 0, 0, 0))
    got = f"{op.kernel} of {op.x.shape[1:3]}, padding {op.padding}"
    return (
        Verdict("window", pointwise or everything, "1x1 or the whole image", got),
        Verdict("pixels", n * h * w <= FEW_PIXELS, f"at most {FEW_PIXELS}", str(n * h * w)),
        *takes_dot(op),
    )


def calls_whole(op: Conv2d, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a convolution whose window is the whole image: it is a fully connected layer."""
    n, h, w, _ = op.y.shape
    return (Call(LINEAR, linear_params(channels_of(op), n * h * w), (op.x,), op.y),)


def scratch_whole(op: Conv2d) -> int:
    """Gives the scratch of a convolution that runs as a fully connected layer."""
    return pack.group_channels(scale_channels(channels_of(op))).row_bytes


def takes_lone(op: Conv2d, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a convolution makes so few pixels, all from inside the image, that each is worth a row of a fully connected layer."""
    n, h, w, _ = op.y.shape
    return (
        Verdict("pixels", n == 1 and h * w in LONE_PIXELS, "1, 2 or 4 of one image", f"{n} x {h} x {w}"),
        Verdict("padding", not any(op.padding), "none", str(op.padding)),
        *takes_dot(op),
    )


def calls_lone(op: Conv2d, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a convolution of few pixels."""
    _, out_h, out_w, _ = op.y.shape
    _, _, in_w, in_c = op.x.shape
    is_whole = op.dilation[1] == 1
    place: Params = {
        **{"windows": out_h, "window_row_step": op.stride[0] * in_w * in_c},
        **{"row_windows": out_w, "window_step": op.stride[1] * in_c},
        **{"kernel_rows": op.kernel[0], "kernel_row_step": op.dilation[0] * in_w * in_c},
        **{"pieces": 1 if is_whole else op.kernel[1], "piece_step": op.dilation[1] * in_c},
        **{"piece_bytes": in_c * (op.kernel[1] if is_whole else 1), "gathered": scratch_whole(op)},
    }
    return (Call(CONV_LONE, {**linear_params(channels_of(op), out_h * out_w), **place}, (op.x,), op.y),)


def scratch_lone(op: Conv2d) -> int:
    """Gives the scratch of a convolution of few pixels: that of the fully connected layer, then the windows."""
    _, out_h, out_w, _ = op.y.shape
    return scratch_whole(op) + out_h * out_w * op.weights_per_output.shape[1]


THREE_PIXELS = CallCost(185.0, pixels=3, left=0.75)
"""Three pixels at a time share what is read of the weights; one or two that are left over cost about as much as three."""

KERNELS: tuple[Kernel, ...] = (
    DSP.row(Conv2d, calls_whole, takes_whole, name="conv2d_whole", scratch_bytes=scratch_whole),
    DSP.row(
        Conv2d, calls_1x1, takes_1x1, name="conv2d_1x1", scratch_bytes=scratch_1x1, each_call=THREE_PIXELS
    ),
    DSP.row(Conv2d, calls_lone, takes_lone, name="conv2d_lone", scratch_bytes=scratch_lone),
    winograd.KERNEL,
    DSP.row(
        Conv2d,
        calls_ring,
        takes_ring,
        name="conv2d_ring",
        scratch_bytes=scratch_ring,
        work=lambda op: work.ring_work(op, ring_rows(op)),
    ),
    DSP.row(
        Conv2d,
        calls_conv,
        takes_conv,
        name="conv2d",
        scratch_bytes=scratch_conv,
        work=work.gathering_work,
    ),
    DSP.row(
        Conv2d,
        calls_thin,
        takes_thin,
        name="conv2d_thin",
        scratch_bytes=scratch_thin,
        each_call=CallCost(400.0, pixels=3, left=2.3),
    ),
    *(depthwise(name, window) for name, window in DEPTHWISE_WINDOWS.items()),
)
