# SPDX-License-Identifier: Apache-2.0
"""Bytes of scratch that the `cortex_m` kernels want, to the byte: a runtime built with checks compares them.

They differ by instruction set because the library's kernels do."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pillion.devices.cortex_m import Isa
from pillion.ir.types import Pair

MVE_DEPTHWISE_CHANNELS = 124
"""Channels that the Helium depthwise kernel gathers at once."""


@dataclass(frozen=True)
class Window:
    """The geometry of a convolution: all that its scratch depends on."""

    batch: int
    image: Pair
    in_channels: int
    result: Pair
    out_channels: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    """The padding above and to the left. What lies below and to the right follows from the size of the result."""
    dilation: Pair = (1, 1)
    groups: int = 1

    @property
    def turned(self) -> Window:
        """Gives the window with height and width exchanged: the same computation on the same bytes where one of both is 1."""
        return Window(
            self.batch,
            self.image[::-1],
            self.in_channels,
            self.result[::-1],
            self.out_channels,
            self.kernel[::-1],
            self.stride[::-1],
            self.padding[::-1],
            self.dilation[::-1],
            self.groups,
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers that the library holds in 16 bits."""
        sides = (*self.image, *self.result, *self.kernel, *self.stride, *self.padding, *self.dilation)
        return (*sides, self.in_channels, self.out_channels)

    @property
    def is_pointwise(self) -> bool:
        """Whether each output needs one pixel alone."""
        return (
            self.kernel == (1, 1) and self.padding == (0, 0) and self.dilation == (1, 1) and self.groups == 1
        )

    @property
    def loses_pixels(self) -> bool:
        """Whether the kernel for windows of one pixel is asked for fewer pixels than there are, and gives all."""
        return self.is_pointwise and self.stride == (1, 1) and self.result != self.image

    @property
    def spaced(self) -> Window:
        """Gives the window with gaps, which make no difference to a window of one pixel but for the kernel that is taken."""
        return replace(self, dilation=(2, 2))

    @property
    def is_row(self) -> bool:
        """Whether Helium takes the kernel for images of one row."""
        one_row = self.image[0] == 1 and self.kernel[0] == 1 and self.dilation[1] == 1
        return (
            one_row
            and self.groups == 1
            and self.stride[1] * self.in_channels % 4 == 0
            and not self.is_pointwise
        )

    @property
    def row_excess(self) -> int:
        """How far the windows reach beyond one row, on both sides together."""
        return (self.result[1] - 1) * self.stride[1] + self.kernel[1] - self.image[1]

    @property
    def row_kernel_fails(self) -> bool:
        """The row kernel works only where its own split of the padding is the wanted one."""
        return self.is_row and 2 * self.padding[1] + math.fmod(self.row_excess, 2) != self.row_excess


def _aligned(size: int, to: int) -> int:
    return -(-size // to) * to


def conv2d(window: Window, isa: Isa) -> int:
    """Gives the bytes that quantized_conv2d wants."""
    if window.is_pointwise:
        return 0
    if isa is Isa.MVE and window.is_row:
        row = _row(window)
        if row is not None:
            return row
    return _columns(window, isa)


def _columns(window: Window, isa: Isa) -> int:
    """Of the general kernel: what four windows see."""
    taps = window.kernel[0] * window.kernel[1] * window.in_channels
    return 4 * _aligned(taps, 16 if isa is Isa.MVE else 4)


def _row(window: Window) -> int | None:
    """Of the Helium kernel for one row; None where it hands over to the general one."""
    (_, stride), (_, pad), (_, kernel), (_, columns) = (
        window.stride,
        window.padding,
        window.kernel,
        window.result,
    )
    channels = window.in_channels
    uneven = int(math.fmod(window.row_excess, 2))
    left = _padded_columns(pad, stride)
    right = _padded_columns(pad + uneven, stride)
    if left + right + max(columns - left - right, 0) != columns:
        return None
    rest = right * channels if uneven else pad * channels
    return max(kernel * channels + pad * channels, kernel * channels - channels + rest)


def _padded_columns(pad: int, stride: int) -> int:
    """Result columns whose windows reach into the padding."""
    return 0 if pad == 0 else max(1, -(-pad // stride))


def depthwise_conv2d(window: Window, isa: Isa) -> int:
    """Gives the bytes that quantized_depthwise_conv2d wants; its window counts the channels of a regular convolution."""
    height, width = window.kernel
    simple = window.in_channels == window.out_channels and window.batch == 1 and window.dilation == (1, 1)
    match isa:
        case Isa.PORTABLE | Isa.SCALAR:
            return 0
        case Isa.DSP:
            small = window.kernel == (3, 3) and max(window.padding) <= 1
            return 2 * window.in_channels * height * width if simple and not small else 0
        case Isa.MVE if simple:
            return 4 * MVE_DEPTHWISE_CHANNELS * height * width
        case _ if window.in_channels == 1 and window.out_channels > 1:
            return _columns(window, isa) + window.out_channels * height * width
        case _:
            return 0


def avg_pool2d(channels: int, isa: Isa) -> int:
    """Gives the bytes that quantized_avg_pool2d wants."""
    return 4 * channels if isa is Isa.DSP else 0


def batch_matmul(columns: int, isa: Isa) -> int:
    """Gives the bytes that quantized_batch_matmul wants."""
    return 4 * columns if isa is Isa.MVE else 0


def reverses(window: Window) -> bool:
    """Whether the library turns a transposed convolution into a regular one over a spread image."""
    return window.in_channels > 16 and max(window.stride) <= 2


def transpose_conv2d(window: Window, isa: Isa) -> Pair:
    """Gives the bytes of both scratch buffers that quantized_transpose_conv2d wants; the window is that of the small image."""
    (height, width), (stride_h, stride_w) = window.kernel, window.stride
    if reverses(window):
        return _columns(window, isa), window.in_channels * height * width * window.out_channels
    # The library uses the vertical stride where it means the horizontal one.
    columns = (window.image[1] - 1) * stride_w + max(width, stride_h)
    return 4 * window.out_channels * columns * max(height, stride_h), 0
