# SPDX-License-Identifier: Apache-2.0
"""Transposed convolution over NHWC images."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pillion.ir.access import ROWS, AxisMap, Span
from pillion.ir.op import Op, op
from pillion.ir.types import Array, Pair, Shape
from pillion.ops.conv import Convolution
from pillion.ops.example_values import (
    DEVIATION,
    ZERO_POINTS,
    conv_bias,
    conv_weights,
    in_16_bits,
    level_center,
    make_op,
    result_for,
    value,
)


@op("transpose_conv2d")
class TransposeConv2d(Convolution):
    """Adds every input pixel, times weights [out, kernel_h, kernel_w, in], to the result from its own position
    times the stride on. `padding` is cut off the result; `output_padding` is added at its bottom and right,
    where only the bias arrives."""

    takes_int16 = True

    output_padding: Pair = (0, 0)

    @property
    def uncropped_size(self) -> Pair:
        """Height and width before cropping, `output_padding` included."""
        axes = zip(
            self.x.shape[1:3], self.kernel, self.stride, self.dilation, self.output_padding, strict=True
        )
        height, width = ((size - 1) * s + d * (k - 1) + 1 + more for size, k, s, d, more in axes)
        return height, width

    @property
    def output_shape(self) -> Shape:
        """The shape of the result after cropping."""
        top, left, bottom, right = self.padding
        return (
            self.x.shape[0],
            self.uncropped_size[0] - top - bottom,
            self.uncropped_size[1] - left - right,
            self.weights_out_channels,
        )

    @property
    def window_maps(self) -> tuple[AxisMap, AxisMap]:
        return self._window_map(0), self._window_map(1)

    def _window_map(self, side: int) -> AxisMap:
        """Returns the access map along one axis; it covers one pixel even where none contributes."""
        stride, before = self.stride[side], self.padding[side]
        reach = self.dilation[side] * (self.kernel[side] - 1)
        low = before - max(reach - stride + 1, 0)
        why = "each is spread over several rows of the result"
        return AxisMap(side + 1, low, before, unit=stride, not_streamed=why)

    def tile(self, axis: int, span: Span, missing: Pair) -> dict[str, object]:
        if axis != ROWS:
            return {}
        read, first = (
            self.window_maps[0].clipped_reach(span, self.x.shape[ROWS]),
            span.first + self.padding[0],
        )
        last = first + span.count - 1
        reached = (read.end - 1) * self.stride[0] + self.dilation[0] * (self.kernel[0] - 1)
        return {
            "padding": (
                first - read.first * self.stride[0],
                self.padding[1],
                max(reached - last, 0),
                self.padding[3],
            ),
            "output_padding": (max(last - reached, 0), self.output_padding[1]),
        }

    @property
    def macs(self) -> int:
        return self.x.type.elements // max(self.in_channels, 1) * self.weights.type.elements

    def check_geometry(self) -> None:
        """Raises if padding leaves nothing of the result, or if weights do not fit the image."""
        steps = zip(self.output_padding, self.stride, self.dilation, strict=True)
        if any(more >= max(s, d) for more, s, d in steps):
            raise self.refuse("output_padding is smaller than the stride or the dilation", self.attributes)
        if min(self.output_shape[1:3]) < 1:
            here = f"{self.uncropped_size}, padding {self.padding}"
            raise self.refuse("padding leaves something of the result", here)
        if self.weights.shape[3] != self.in_channels:
            raise self.refuse(f"weights are [out, h, w, {self.in_channels}]", list(self.weights.shape))

    def sums(self, x: Array, weights: Array) -> NDArray[np.float64]:
        pixels, filters = x.astype(np.float64) - self.x.zero_point, weights.astype(np.float64)
        sums = np.zeros((x.shape[0], *self.uncropped_size, self.weights_out_channels))
        rows, columns = (size * s for size, s in zip(x.shape[1:3], self.stride, strict=True))
        for tap in np.ndindex(*self.kernel):
            top, left = (t * d for t, d in zip(tap, self.dilation, strict=True))
            reached = np.s_[:, top : top + rows : self.stride[0], left : left + columns : self.stride[1]]
            sums[reached] += pixels @ filters[:, tap[0], tap[1]].T
        _, height, width, _ = self.output_shape
        top, left = self.padding[:2]
        return sums[:, top : top + height, left : left + width]

    @classmethod
    def examples(cls) -> Iterator[Op]:
        cases = enumerate((*TRANSPOSE_CONV_CASES, DILATED_CASE))
        for is_wide, (number, (shape, out, kernel, options)) in product((False, True), list(cases)):
            x = value("x", shape, 2.0**-5 if number % 3 == 2 else 0.043, ZERO_POINTS[number % 4])
            weights = conv_weights((out, *kernel, shape[3]), 0, number, power_of_two=number % 3 == 2)
            sides = zip(kernel, options.get("stride", (1, 1)), strict=True)
            taps = math.prod(-(-k // s) for k, s in sides) * shape[3]
            scale = x.scale * float(weights.channel_scales.mean())
            spread = math.sqrt(taps) * 73 * math.hypot(DEVIATION, level_center(x)) * scale
            y = result_for(0, spread, number)
            bounds = ({}, {"low": y.zero_point}, {"low": -100, "high": 90})[number % 3]
            if is_wide:
                x, y = in_16_bits(x), in_16_bits(y)
                bounds = {"low": (-(2**15), 0, -20000)[number % 3], "high": 2**15 - 1}
            bias = conv_bias(x, weights, out, number)
            yield make_op(cls, y, x=x, weights=weights, bias=bias, **options, **bounds)


TRANSPOSE_CONV_CASES: tuple[tuple[Shape, int, tuple[int, int], dict[str, Any]], ...] = (
    # input shape, output channels, kernel, other fields
    ((1, 3, 5, 1), 1, (1, 1), {}),
    ((2, 5, 3, 7), 9, (3, 2), {"stride": (2, 1)}),
    ((1, 3, 7, 8), 5, (3, 3), {"stride": (2, 2), "padding": (1, 1, 1, 1), "output_padding": (1, 1)}),
    ((1, 5, 2, 3), 16, (4, 4), {"stride": (2, 2), "padding": (1, 1, 1, 1)}),
    ((2, 1, 7, 5), 4, (1, 3), {"stride": (1, 3), "padding": (0, 1, 0, 0), "output_padding": (0, 2)}),
    ((1, 3, 2, 17), 3, (2, 3), {"stride": (3, 4), "output_padding": (2, 1)}),
    ((1, 5, 3, 33), 8, (5, 3), {"padding": (4, 2, 3, 0)}),
)


DILATED_CASE: tuple[Shape, int, tuple[int, int], dict[str, Any]] = (
    (1, 3, 5, 6),
    7,
    (3, 2),
    {"stride": (2, 1), "dilation": (2, 3), "padding": (1, 0, 0, 2), "output_padding": (1, 2)},
)
