# SPDX-License-Identifier: Apache-2.0
"""The DSP kernels of depthwise convolution."""

from __future__ import annotations

from dataclasses import replace

from pillion.emitters.c.accumulators import channels_of
from pillion.emitters.c.dsp import pack
from pillion.emitters.c.dsp.depthwise_cost import depthwise_work, is_transposed, scratch_depthwise
from pillion.emitters.c.dsp.linear import DOT
from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_library import DSP
from pillion.emitters.c.portable.conv import image_params, swap_height_and_width, window
from pillion.ir.types import Pair, Value
from pillion.ir.verdict import Verdict
from pillion.ops.conv import DepthwiseConv2d

Window = tuple[Pair, Pair, Pair]
DEPTHWISE_WINDOWS: dict[str, Window | None] = {
    "depthwise_3x3": ((3, 3), (1, 1), (1, 1)),
    "depthwise_3x3_stride2": ((3, 3), (2, 2), (1, 1)),
    "depthwise_5x5": ((5, 5), (1, 1), (1, 1)),
    "depthwise_5x5_stride2": ((5, 5), (2, 2), (1, 1)),
    "depthwise_any": None,
}
"""Variant → the kernel, stride and dilation that it is specialized for; None for any."""


def has_window(op: DepthwiseConv2d, window: Window | None) -> Verdict:
    """Checks whether a depthwise convolution has the kernel's window."""
    got = (op.kernel, op.stride, op.dilation)
    return Verdict("window", window in (got, None), str(window), str(got))


def depthwise_params(op: DepthwiseConv2d) -> Params:
    """Returns the parameters of the depthwise kernels, with heights and widths swapped if groups of four fit the
    height better."""
    transposed, channels = is_transposed(op), channels_of(op)
    sizes: Params = {**image_params(op), **window(op)}
    if transposed:
        weights = channels.weights.reshape(-1, *op.kernel).swapaxes(1, 2)
        channels = replace(channels, weights=weights.reshape(channels.weights.shape))
        sizes = swap_height_and_width(sizes)
    return {**sizes, "transposed": int(transposed), **pack.pack_depthwise(channels)}


def in_place_depthwise(op: DepthwiseConv2d) -> tuple[Value, ...]:
    """Returns the image if no result overwrites unread inputs: each channel is copied before its results are
    written, but later images of a batch are not."""
    fits = op.depth_multiplier == 1 and (op.x.shape[0] == 1 or op.x.shape == op.y.shape)
    return (op.x,) if fits and op.y.type.size_bytes <= op.x.type.size_bytes else ()


def depthwise_kernel(name: str, window: Window | None) -> Kernel:
    """Builds the depthwise kernel for one window, or for any."""
    return DSP.kernel(
        DepthwiseConv2d,
        f"{name}_s8",
        depthwise_params,
        requires=(lambda op: has_window(op, window), DOT),
        name=name,
        scratch_bytes=scratch_depthwise,
        in_place=in_place_depthwise,
        also=("depthwise", "clamp"),
        work=lambda op: depthwise_work(op, name),
    )


KERNELS: tuple[Kernel, ...] = tuple(
    depthwise_kernel(name, window) for name, window in DEPTHWISE_WINDOWS.items()
)
