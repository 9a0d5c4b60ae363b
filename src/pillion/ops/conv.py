# SPDX-License-Identifier: Apache-2.0
"""Convolutions over NHWC images."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.access import WHOLE, Access, AxisMap, Span, crop_tile_padding, window_maps
from pillion.ir.numerics import Multipliers
from pillion.ir.op import Op, op, require_rank
from pillion.ir.types import Array, Pair, PerChannel, Shape, Sides, TensorType, Value
from pillion.ops.example_values import ZERO_POINTS, conv_bias, conv_weights, in_16_bits, make_op, value
from pillion.ops.layer import Layer


def padded_windows(
    x: NDArray[np.float64], kernel: Pair, stride: Pair, dilation: Pair, padding: Sides
) -> NDArray[np.float64]:
    """Returns the windows of a zero-padded image as [n, out_h, out_w, kernel_h, kernel_w, c]."""
    top, left, bottom, right = padding
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    extent = tuple(d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True))
    seen = sliding_window_view(padded, extent, axis=(1, 2))
    seen = seen[:, :: stride[0], :: stride[1], :, :: dilation[0], :: dilation[1]]
    return np.moveaxis(seen, 3, -1)


def output_size(size: int, kernel: int, stride: int, dilation: int, padding: int) -> int:
    """Returns the number of window positions along one axis; zero or negative if the window does not fit."""
    return (size + padding - dilation * (kernel - 1) - 1) // stride + 1


def output_sizes(x: Value, kernel: Pair, stride: Pair, dilation: Pair, padding: Sides) -> Iterator[int]:
    """Yields the number of window positions along height and width of an image."""
    (height, width), (top, left, bottom, right) = x.shape[1:3], padding
    yield output_size(height, kernel[0], stride[0], dilation[0], top + bottom)
    yield output_size(width, kernel[1], stride[1], dilation[1], left + right)


class Convolution(Layer):
    """The base class of convolutions: the geometry of windows."""

    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: Sides = (0, 0, 0, 0)

    @property
    def kernel(self) -> Pair:
        """Height and width of the window."""
        return self.weights.shape[1], self.weights.shape[2]

    @property
    def in_channels(self) -> int:
        """The channels of the image."""
        return self.x.shape[3]

    @property
    def out_channels(self) -> int:
        """The channels of the result."""
        return self.y.shape[3]

    @property
    def output_shape(self) -> Shape:
        """The shape of the result, from image, window and padding."""
        sizes = output_sizes(self.x, self.kernel, self.stride, self.dilation, self.padding)
        return (self.x.shape[0], *sizes, self.weights_out_channels)

    def from_scales_in_uint8(self) -> Multipliers:
        """Returns the one multiplier whose product of scales is rounded to float32, as in LiteRT's uint8 kernels."""
        if len(self.weights.channel_scales) != 1:
            return ()
        product = np.float32(self.x.scale) * np.float32(self.weights.channel_scales[0])
        return numerics.encode_multipliers(float(product) / self.y.scale)

    def access(self, operand: Value) -> Access:
        if operand is not self.x:
            return WHOLE
        return AxisMap(0), *self.window_maps, "its channels are made together"

    @property
    def window_maps(self) -> tuple[AxisMap, AxisMap]:
        """The access maps along height and width."""
        outside = self.x.zero_point if self.x.is_quantized else 0
        return window_maps(self.x, self.y, self.kernel, self.stride, self.dilation, self.padding, outside)

    def tile(self, axis: int, span: Span, missing: Pair) -> dict[str, object]:
        return {"padding": crop_tile_padding(self.padding, axis, missing)}

    def infer(self) -> TensorType:
        return TensorType(self.output_shape, self.result_dtype)

    def check(self) -> None:
        require_rank(self, self.x, 4)
        require_rank(self, self.weights, 4)
        paddings = (*self.padding, *self.attributes.get("output_padding", ()))
        if min(*self.stride, *self.dilation) < 1 or min(paddings) < 0:
            raise self.refuse("strides and dilations are positive, paddings not negative", self.attributes)
        self.check_geometry()
        if self.bias.shape != (self.weights_out_channels,):
            raise self.refuse(
                f"one bias for each of {self.weights_out_channels} channels", list(self.bias.shape)
            )
        self.check_layer()

    def check_geometry(self) -> None:
        """Raises if windows or weights do not fit the image."""
        if min(self.output_shape[1:3]) < 1:
            raise self.refuse(
                "the window fits into the padded image", f"image {self.x.shape[1:3]}, kernel {self.kernel}"
            )

    def sums(self, x: Array, weights: Array) -> NDArray[np.float64]:
        """Returns the sums of products of each output element, without bias."""
        raise NotImplementedError

    def accumulators(self, x: Array, weights: Array, bias: Array) -> NDArray[np.int64]:
        return self.sums(x, weights).astype(np.int64) + bias.astype(np.int64)


@op("conv2d")
class Conv2d(Convolution):
    """Convolves an image with weights [out, kernel_h, kernel_w, in / groups]; padding is zero."""

    takes_int16 = True
    weights_of_4_bits = True

    groups: int = 1
    x_bounds: tuple[int, int] | None = dataclasses.field(default=None, metadata={"role": "fact"})
    """Between which numbers a 16-bit image lies, in the graph that the op is part of, if that is less than the type; results
    do not depend on it."""

    @property
    def macs(self) -> int:
        return self.y.type.elements * self.weights.type.elements // self.weights.shape[0]

    def check(self) -> None:
        super().check()
        if (
            self.groups < 1
            or self.weights.shape[0] % self.groups
            or self.weights.shape[3] * self.groups != self.in_channels
        ):
            raise self.refuse(
                "groups divide the output channels, and input channels are groups times those of the weights",
                f"groups {self.groups}, weights {list(self.weights.shape)}, input channels {self.in_channels}",
            )

    def sums(self, x: Array, weights: Array) -> NDArray[np.float64]:
        seen = padded_windows(
            x.astype(np.float64) - self.x.zero_point, self.kernel, self.stride, self.dilation, self.padding
        )
        parts = np.split(seen, self.groups, axis=-1)
        filters = np.split(weights.astype(np.float64), self.groups)
        rows = [
            part.reshape(-1, f[0].size) @ f.reshape(len(f), -1).T
            for part, f in zip(parts, filters, strict=True)
        ]
        return np.concatenate(rows, axis=1).reshape(self.y.shape)

    @classmethod
    def _examples(cls) -> Iterator[Op]:
        grouped = (
            ((1, 5, 7, 6), 4, {"kernel": (3, 3), "groups": 2, "padding": (1, 1, 1, 1)}),
            ((2, 3, 5, 9), 9, {"kernel": (1, 3), "groups": 3}),
        )
        for number, (shape, out, options) in enumerate(CONV_CASES + grouped):
            kernel, groups = options["kernel"], options.get("groups", 1)
            weights = conv_weights(
                (out, *kernel, shape[3] // groups), 0, number, power_of_two=number % 3 == 2
            )
            yield from _example_convolutions(cls, number, shape, weights, options)


@op("depthwise_conv2d")
class DepthwiseConv2d(Convolution):
    """Convolves each input channel with its own filters, weights [1, kernel_h, kernel_w, out]: out = in *
    multiplier, output channel = input channel * multiplier + m."""

    takes_int16 = True

    @property
    def weights_out_channels(self) -> int:
        return self.weights.shape[3]

    @property
    def weights_per_output(self) -> Array:
        return self.weights.constant.reshape(-1, self.weights.shape[3]).T

    @property
    def depth_multiplier(self) -> int:
        """The number of filters per input channel."""
        return self.weights.shape[3] // self.in_channels

    @property
    def macs(self) -> int:
        return self.y.type.elements * self.kernel[0] * self.kernel[1]

    def check(self) -> None:
        super().check()
        if self.weights.shape[0] != 1 or self.in_channels == 0 or self.weights.shape[3] % self.in_channels:
            raise self.refuse(
                "weights are [1, h, w, a multiple of the input channels]",
                f"weights {list(self.weights.shape)}, input channels {self.in_channels}",
            )

    def sums(self, x: Array, weights: Array) -> NDArray[np.float64]:
        seen = padded_windows(
            x.astype(np.float64) - self.x.zero_point, self.kernel, self.stride, self.dilation, self.padding
        )
        seen = np.repeat(seen, self.depth_multiplier, axis=-1)
        return np.asarray(np.einsum("nyxhwc,hwc->nyxc", seen, weights[0].astype(np.float64)))

    @classmethod
    def _examples(cls) -> Iterator[Op]:
        for number, (shape, out, options) in enumerate(CONV_CASES):
            multiplier = 3 if number == 3 else out if shape[3] == 1 else 1
            weights = conv_weights(
                (1, *options["kernel"], shape[3] * multiplier), 3, number, power_of_two=number % 3 == 2
            )
            yield from _example_convolutions(cls, number, shape, weights, options)


CONV_CASES: tuple[tuple[Shape, int, dict[str, Any]], ...] = (
    # input shape, output channels, other fields
    ((1, 5, 3, 1), 1, {"kernel": (1, 1)}),
    ((1, 7, 5, 7), 9, {"kernel": (1, 1)}),
    ((2, 5, 7, 8), 7, {"kernel": (3, 3), "padding": (1, 1, 1, 1)}),
    ((1, 11, 7, 9), 8, {"kernel": (3, 2), "stride": (2, 1), "padding": (0, 1, 2, 0)}),
    ((1, 13, 11, 3), 16, {"kernel": (3, 3), "stride": (2, 2), "padding": (0, 0, 1, 1)}),
    ((1, 7, 13, 4), 5, {"kernel": (2, 3), "dilation": (2, 3), "padding": (1, 2, 1, 2)}),
    ((2, 3, 5, 16), 17, {"kernel": (1, 1), "stride": (2, 3)}),
    ((1, 1, 31, 2), 3, {"kernel": (1, 5), "stride": (1, 2), "padding": (0, 2, 0, 2)}),
    ((1, 5, 5, 33), 4, {"kernel": (1, 1)}),
)


def _example_convolutions(
    cls: type[Op], number: int, shape: Shape, weights: Value, options: dict[str, Any]
) -> Iterator[Op]:
    x = value("x", shape, 2.0**-5 if number % 3 == 2 else 0.043, ZERO_POINTS[number % 4])
    out = len(cast("PerChannel", weights.type.quant).scales)
    y = value("y", (), (0.25, 1.7, 0.03, 2.0**-2)[number % 4], ZERO_POINTS[(number + 1) % 4])
    bounds = ({}, {"low": y.zero_point}, {"low": min(max(-100, y.zero_point), 100), "high": 120})[number % 3]
    options = {name: option for name, option in options.items() if name != "kernel"}
    yield make_op(cls, y, x=x, weights=weights, bias=conv_bias(x, weights, out, number), **options, **bounds)
    x, y = in_16_bits(x), in_16_bits(y)
    bounds = {"low": 0 if number % 3 == 1 else -(2**15), "high": 2**15 - 1}
    yield make_op(cls, y, x=x, weights=weights, bias=conv_bias(x, weights, out, number), **options, **bounds)
