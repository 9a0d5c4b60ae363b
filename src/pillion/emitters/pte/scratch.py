# SPDX-License-Identifier: Apache-2.0
"""The scratch sizes of the `cortex_m` kernels, exact to the byte: a runtime with checks compares them. They
depend on the instruction set."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from pillion.devices.cortex_m import Isa
from pillion.ir.types import Pair

MVE_DEPTHWISE_CHANNELS = 124
"""The channels that the Helium depthwise kernel gathers at once."""

MANY_CHANNELS = 128
"""The channels from which on the general DSP kernel is preferred for ten pixels instead of eight."""


@dataclass(frozen=True)
class ScratchWindow:
    """The geometry of a convolution, which determines its scratch size."""

    batch: int
    image: Pair
    in_channels: int
    result: Pair
    out_channels: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    """The top and left padding. The bottom and right ones follow from the result's size."""
    dilation: Pair = (1, 1)
    groups: int = 1

    @property
    def turned(self) -> ScratchWindow:
        """The window with height and width exchanged: the same computation on the same bytes if either is 1."""
        pairs = ("image", "result", "kernel", "stride", "padding", "dilation")
        turned: dict[str, Any] = {name: getattr(self, name)[::-1] for name in pairs}
        return replace(self, **turned)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers that the library stores in 16 bits."""
        sides = (*self.image, *self.result, *self.kernel, *self.stride, *self.padding, *self.dilation)
        return (*sides, self.in_channels, self.out_channels)

    @property
    def is_pointwise(self) -> bool:
        """Whether each output depends on one pixel."""
        return (
            self.kernel == (1, 1) and self.padding == (0, 0) and self.dilation == (1, 1) and self.groups == 1
        )

    @property
    def loses_pixels(self) -> bool:
        """Whether the result has fewer pixels than the image, which the 1x1 kernel would ignore."""
        return self.is_pointwise and self.stride == (1, 1) and self.result != self.image

    @property
    def is_of_few_pixels(self) -> bool:
        """Whether the general kernel is faster than the 1x1 kernel with the DSP extension: on a Cortex-M33 it
        takes a third less for one pixel, 2 to 8 % less for eight, and more from about ten on."""
        most = 10 if self.in_channels >= MANY_CHANNELS else 8
        return self.is_pointwise and self.out_channels > 1 and self.batch * math.prod(self.image) <= most

    @property
    def with_dilation(self) -> ScratchWindow:
        """The window with a dilation, which has no effect on a 1x1 window but selects the general kernel."""
        return replace(self, dilation=(2, 2))

    @property
    def uses_row_kernel(self) -> bool:
        """Whether Helium uses the kernel for images of one row."""
        one_row = self.image[0] == 1 and self.kernel[0] == 1 and self.dilation[1] == 1
        return (
            one_row
            and self.groups == 1
            and self.stride[1] * self.in_channels % 4 == 0
            and not self.is_pointwise
        )

    @property
    def row_excess(self) -> int:
        """The total extent of the windows beyond a row."""
        return (self.result[1] - 1) * self.stride[1] + self.kernel[1] - self.image[1]

    @property
    def row_kernel_fails(self) -> bool:
        """Whether the row kernel splits the padding in another way than required."""
        return self.uses_row_kernel and 2 * self.padding[1] + math.fmod(self.row_excess, 2) != self.row_excess


def _align_size(size: int, to: int) -> int:
    return -(-size // to) * to


def conv2d_scratch_bytes(window: ScratchWindow, isa: Isa) -> int:
    """Returns the scratch bytes of quantized_conv2d."""
    if window.is_pointwise:
        return 0
    if isa is Isa.MVE and window.uses_row_kernel:
        row = _row_kernel_scratch_bytes(window)
        if row is not None:
            return row
    return _general_kernel_scratch_bytes(window, isa)


def _general_kernel_scratch_bytes(window: ScratchWindow, isa: Isa) -> int:
    """Returns the scratch bytes of the general kernel: the elements under four windows."""
    taps = window.kernel[0] * window.kernel[1] * window.in_channels
    return 4 * _align_size(taps, 16 if isa is Isa.MVE else 4)


def _row_kernel_scratch_bytes(window: ScratchWindow) -> int | None:
    """Returns the scratch bytes of the Helium row kernel; None if it falls back to the general kernel."""
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
    """Returns the result columns whose windows reach into the padding."""
    return 0 if pad == 0 else max(1, -(-pad // stride))


def depthwise_conv2d_scratch_bytes(window: ScratchWindow, isa: Isa) -> int:
    """Returns the scratch bytes of quantized_depthwise_conv2d; its window has the channels of a regular
    convolution."""
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
            return _general_kernel_scratch_bytes(window, isa) + window.out_channels * height * width
        case _:
            return 0


def avg_pool2d_scratch_bytes(channels: int, isa: Isa) -> int:
    """Returns the scratch bytes of quantized_avg_pool2d."""
    return 4 * channels if isa is Isa.DSP else 0


def batch_matmul_scratch_bytes(columns: int, isa: Isa) -> int:
    """Returns the scratch bytes of quantized_batch_matmul."""
    return 4 * columns if isa is Isa.MVE else 0


def converts_to_regular_conv(window: ScratchWindow) -> bool:
    """Whether the library converts a transposed convolution into a regular one over a spread image."""
    return window.in_channels > 16 and max(window.stride) <= 2


def transpose_conv2d_scratch_bytes(window: ScratchWindow, isa: Isa) -> Pair:
    """Returns the scratch bytes of both buffers of quantized_transpose_conv2d; the window belongs to the small
    image."""
    (height, width), (stride_h, stride_w) = window.kernel, window.stride
    if converts_to_regular_conv(window):
        return _general_kernel_scratch_bytes(
            window, isa
        ), window.in_channels * height * width * window.out_channels
    # The library uses the vertical stride instead of the horizontal one.
    columns = (window.image[1] - 1) * stride_w + max(width, stride_h)
    return 4 * window.out_channels * columns * max(height, stride_h), 0
