# SPDX-License-Identifier: Apache-2.0
"""The DSP kernels of convolution."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pillion.emitters.c import subpixel
from pillion.emitters.c.accumulators import OutputChannels, channels_of
from pillion.emitters.c.channel_scaling import scale_channels
from pillion.emitters.c.dsp import conv_cost, pack, winograd
from pillion.emitters.c.dsp.linear import DOT, LINEAR, OF_BYTES
from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import LAYER, Condition, field_equals, is_within, multiple_of
from pillion.emitters.c.kernel_library import DSP
from pillion.emitters.c.portable.conv import plain_1x1
from pillion.ir.types import DType
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d
from pillion.ops.linear import Linear

BLOCK_BYTES = 24
"""The size of four widened inputs of three pixels."""
MOST_LINEAR_PIXELS = 2
FEW_PIXEL_COUNTS = (1, 2, 4)
"""Pixel counts for which computing single pixels is faster than groups of three with unused ones."""
SMALL_RING = 8192
"""The size up to which a ring of widened rows may exceed an eighth of the image and result, but never their sum."""


FOURS: Condition[Any] = multiple_of("in_channels", 4)
"""Input channels are a multiple of four, which one 32-bit load reads."""
UNGROUPED: Condition[Any] = field_equals("groups", 1)


def ring_rows(op: Conv2d) -> int:
    """Returns the rows of the padded image that the windows of three adjacent outputs read."""
    between = 2 if op.y.shape[2] == 1 else 1
    return op.kernel[0] + between * op.stride[0]


def ring_bytes(op: Conv2d) -> int:
    """Returns the size of the ring of widened image rows, two bytes for each element."""
    columns = (op.y.shape[2] - 1) * op.stride[1] + op.kernel[1]
    return 2 * ring_rows(op) * columns * op.in_channels


def ring_saves_work(op: Conv2d) -> Iterator[Verdict]:
    """Checks whether a ring pays: windows must overlap, and the ring must be small relative to the image."""
    overlaps = any(k > s for k, s in zip(op.kernel, op.stride, strict=True))
    image = op.x.type.size_bytes + op.y.type.size_bytes
    most = max(min(SMALL_RING, image), image // 8)
    yield Verdict("dilation", op.dilation == (1, 1), "1", str(op.dilation))
    yield Verdict("windows", overlaps, "larger than the stride", f"{op.kernel}, stride {op.stride}")
    yield is_within("ring", ring_bytes(op), most=most, unit="bytes")


def has_nibbles(op: Conv2d | Linear) -> bool:
    """Whether a layer has weights of 4 bits."""
    return op.weights.dtype is DType.INT4


def dot_params(op: Conv2d | Linear) -> Params:
    """Returns the packed channels as parameters."""
    return pack.pack_dot(channels_of(op), has_nibbles(op))


def thin_channels(op: Conv2d) -> OutputChannels:
    """Returns the weights in the input order of conv2d_thin_s8_dsp.c: the complete words of every kernel row, then
    the remaining bytes."""
    row_bytes = op.kernel[1] * op.in_channels
    order = np.arange(op.kernel[0] * row_bytes).reshape(op.kernel[0], row_bytes)
    word_bytes = row_bytes // 4 * 4
    channels = channels_of(op)
    inputs = np.concatenate([order[:, :word_bytes].reshape(-1), order[:, word_bytes:].T.reshape(-1)])
    return replace(channels, weights=channels.weights[:, inputs])


def thin_params(op: Conv2d) -> Params:
    """Returns the packed channels of the thin kernel as parameters."""
    return pack.pack_dot(thin_channels(op), has_nibbles(op))


def scratch_ring(op: Conv2d) -> int:
    """Returns the scratch bytes of the ring kernel: the 1x1 kernel's, then the ring."""
    return scratch_1x1(op) + ring_bytes(op)


def scratch_1x1(op: Conv2d | Linear) -> int:
    """Returns the scratch bytes of the 1x1 kernel: the widened blocks, and a jump for each iteration of the loop
    over them."""
    pair = pack.pair_nibbles if has_nibbles(op) else pack.pair_channels
    pairing = pair(scale_channels(channels_of(op)))
    return BLOCK_BYTES * pairing.steps + 4 * pairing.jumps(1)


def scratch_conv(op: Conv2d) -> int:
    """Returns the scratch bytes of the kernel of any window: the 1x1 kernel's, then a pixel of zero points."""
    return scratch_1x1(op) + op.in_channels


def scratch_thin(op: Conv2d) -> int:
    """Returns the scratch bytes of the thin kernel: the 1x1 kernel's, then three windows of bytes."""
    return scratch_1x1(op) + 3 * op.weights_per_output.shape[1]


def one_or_two_pixels(op: Conv2d) -> Iterator[Verdict]:
    """Checks whether a convolution is a fully connected layer over at most two pixels; for three, 1x1 is faster."""
    n, h, w, _ = op.y.shape
    pointwise = (op.kernel, op.stride, op.padding) == ((1, 1), (1, 1), (0, 0, 0, 0))
    everything = (op.kernel, (h, w), op.padding) == (op.x.shape[1:3], (1, 1), (0, 0, 0, 0))
    got = f"{op.kernel} of {op.x.shape[1:3]}, padding {op.padding}"
    yield Verdict("window", pointwise or everything, "1x1 or the whole image", got)
    yield is_within("pixels", n * h * w, most=MOST_LINEAR_PIXELS)


def few_pixels(op: Conv2d) -> Iterator[Verdict]:
    """Checks whether a convolution has no padding and so few pixels that each is cheaper as a row of a fully
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
        **OF_BYTES.params(op),
        **{"windows": out_h, "window_row_step": op.stride[0] * in_w * in_c},
        **{"row_windows": out_w, "window_step": op.stride[1] * in_c},
        **{"kernel_rows": op.kernel[0], "kernel_row_step": op.dilation[0] * in_w * in_c},
        **{"pieces": 1 if is_whole else op.kernel[1], "piece_step": op.dilation[1] * in_c},
        **{"piece_bytes": in_c * (op.kernel[1] if is_whole else 1), "gathered": OF_BYTES.scratch_bytes(op)},
    }


def scratch_few_pixels(op: Conv2d) -> int:
    """Returns the scratch bytes of a convolution of few pixels: the fully connected layer's, then the windows."""
    _, out_h, out_w, _ = op.y.shape
    return OF_BYTES.scratch_bytes(op) + out_h * out_w * op.weights_per_output.shape[1]


@dataclass(frozen=True)
class Windows:
    """How a kernel reads windows, whatever bits weights have."""

    routine: str
    """The name of its C functions without types."""
    params: Callable[[Conv2d], Params]
    conditions: tuple[Condition[Conv2d], ...]
    scratch_bytes: Callable[[Conv2d], int]
    work: Callable[[Conv2d], float]
    files: tuple[str, ...] = ()
    """The further C files of the function."""

    def kernel(self, types: str, exact: Condition[Conv2d], *files: str, **more: Any) -> Kernel:
        """Returns the kernel for weights of some bits, with the condition that sums are exact."""
        functions: dict[str, Any] = {"scratch_bytes": self.scratch_bytes, "work": self.work, **more}
        return DSP.kernel(
            Conv2d,
            f"{self.routine}_{types}",
            self.params,
            requires=(*self.conditions, UNGROUPED, exact),
            also=(*self.files, *files, "dot", "clamp"),
            **functions,
        )


POINTWISE = Windows(
    "conv2d_1x1",
    lambda op: {**dot_params(op), "pixels": math.prod(op.y.shape[:3])},
    (plain_1x1, FOURS),
    scratch_1x1,
    conv_cost.pointwise_work,
    ("dot_1",),
)
RING = Windows(
    "conv2d_ring",
    lambda op: {**dot_params(op), "ring_rows": ring_rows(op)},
    (ring_saves_work, FOURS),
    scratch_ring,
    conv_cost.ring_work,
)
GATHERED = Windows("conv2d", dot_params, (FOURS,), scratch_conv, conv_cost.gathering_work)
THIN = Windows("conv2d_thin", thin_params, (), scratch_thin, conv_cost.thin_work)
CONV_KERNEL = GATHERED.kernel("s8", DOT)

KERNELS: tuple[Kernel, ...] = (
    DSP.kernel(
        Conv2d,
        LINEAR,
        OF_BYTES.params,
        requires=(one_or_two_pixels, UNGROUPED, DOT),
        name="conv2d_whole",
        scratch_bytes=OF_BYTES.scratch_bytes,
    ),
    POINTWISE.kernel("s8", DOT),
    DSP.kernel(
        Conv2d,
        "conv2d_lone_s8",
        few_pixels_params,
        requires=(few_pixels, UNGROUPED, DOT),
        scratch_bytes=scratch_few_pixels,
        also=("linear_s8", "clamp"),
    ),
    winograd.KERNEL,
    RING.kernel("s8", DOT),
    CONV_KERNEL,
    THIN.kernel("s8", DOT),
    subpixel.kernel(DSP, "s8", LAYER, CONV_KERNEL, "conv2d_s8", "dot", "clamp"),
)
