# SPDX-License-Identifier: Apache-2.0
"""Convolutions over NHWC images."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, op, operand, result, want_dtype, want_rank
from pillion.ir.types import Array, DType, Pair, Shape, Sides, TensorType, Value, constant
from pillion.ops import samples

Weighted = TypeVar("Weighted", bound=Any)
"""A convolution or a linear layer."""


def windows(
    x: NDArray[np.float64], kernel: Pair, stride: Pair, dilation: Pair, padding: Sides
) -> NDArray[np.float64]:
    """Gives [n, out_h, out_w, kernel_h, kernel_w, c]: what each output pixel sees of a zero-padded image."""
    top, left, bottom, right = padding
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    extent = tuple(d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True))
    seen = sliding_window_view(padded, extent, axis=(1, 2))
    seen = seen[:, :: stride[0], :: stride[1], :, :: dilation[0], :: dilation[1]]
    return np.moveaxis(seen, 3, -1)


def output_size(size: int, kernel: int, stride: int, dilation: int, padding: int) -> int:
    """Counts the positions of a window along one axis; not positive where it does not fit."""
    return (size + padding - dilation * (kernel - 1) - 1) // stride + 1


class Convolution(Op):
    """The base of regular and depthwise convolutions: bias, requantization, geometry."""

    is_idle = False

    x: Value
    weights: Value
    bias: Value
    y: Value
    stride: Pair
    dilation: Pair
    padding: Sides
    low: int
    high: int

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
        """The shape of the result, which follows from image, window and padding."""
        top, left, bottom, right = self.padding
        sizes = zip(
            self.x.shape[1:3],
            self.kernel,
            self.stride,
            self.dilation,
            (top + bottom, left + right),
            strict=True,
        )
        return (self.x.shape[0], *(output_size(*axis) for axis in sizes), self.weights_out_channels)

    @property
    def weights_out_channels(self) -> int:
        """The channels of the result, as the weights say it."""
        raise NotImplementedError

    @property
    def multipliers(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The multiplier of each output channel: mantissas and shifts."""
        scales = np.broadcast_to(self.weights.channel_scales, (self.out_channels,))
        return numerics.encode_all(self.x.scale * scales / self.y.scale)

    def infer(self) -> TensorType:
        return TensorType(self.output_shape, self.x.dtype)

    def check(self) -> None:
        want_rank(self, self.x, 4)
        want_rank(self, self.weights, 4)
        if min(*self.stride, *self.dilation) < 1 or min(self.padding) < 0:
            raise self.refuse("strides and dilations are positive, paddings not negative", self.attributes)
        if min(self.output_shape[1:3]) < 1:
            raise self.refuse(
                "the window fits into the padded image", f"image {self.x.shape[1:3]}, kernel {self.kernel}"
            )
        if self.bias.shape != (self.weights_out_channels,):
            raise self.refuse(
                f"one bias for each of {self.weights_out_channels} channels", list(self.bias.shape)
            )
        if self.x.dtype is DType.INT8:
            self.check_integers()

    def check_integers(self) -> None:
        """Raises where types are wrong or an accumulator could leave int32."""
        want_dtype(self, self.weights, DType.INT8)
        want_dtype(self, self.bias, DType.INT32)
        if self.weights.is_constant and self.bias.is_constant:
            check_accumulator(self, self.x, self.weights_per_output, self.bias.constant)

    @property
    def weights_per_output(self) -> Array:
        """The weights of each output channel in a row: [out_channels, taps]."""
        raise NotImplementedError

    def sums(self, x: Array, weights: Array) -> NDArray[np.float64]:
        """Gives the sums of all products of each output element, without the bias."""
        raise NotImplementedError

    def accumulators(self, x: Array, weights: Array, bias: Array) -> NDArray[np.int64]:
        """Gives the sums that are requantized, for each output element."""
        return self.sums(x, weights).astype(np.int64) + bias.astype(np.int64)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        """Gives int8 results from accumulators: requantization, zero point, clamp."""
        scaled = numerics.requantize(self.accumulators(*operands), *self.multipliers)
        return numerics.saturate(scaled + self.y.zero_point, self.low, self.high)


def check_accumulator(op: Op, x: Value, weights: Array, bias: Array) -> None:
    """Refuses sums that could leave 32 bits, for weights [outputs, taps]. Any part of a sum is in these bounds too."""
    start = bias.astype(np.int64) - x.zero_point * numerics.row_sums(weights)
    lowest, highest = (start + bound for bound in numerics.row_bounds(weights))
    outside = (lowest < numerics.INT32_MIN) | (highest > numerics.INT32_MAX)
    if outside.any():
        channel = int(np.argmax(outside))
        raise op.refuse(
            "sums fit 32 bits",
            f"from {lowest[channel]} to {highest[channel]} in channel {channel}",
            "calibrate with data that the model will see",
        )


def without_idle_biases(op: Weighted, fresh: Callable[[str], str]) -> Weighted:
    """Gives the op with zeros for the biases of dead channels, whose multiplier is zero: nothing of a sum is seen there.
    Converters saturate such biases, and sums would leave 32 bits for no reason."""
    try:
        idle = np.broadcast_to(op.multipliers[0] == 0, op.bias.shape)
    except (
        ValueError
    ):  # scales that no multiplier can reach, or a bias of another shape: the op's own check says so
        return op
    if not idle.any():
        return op
    data = np.where(idle, 0, op.bias.constant).astype(np.int32)
    return dataclasses.replace(op, bias=constant(fresh(op.bias.name), data, op.bias.type.quant))


@op("conv2d")
class Conv2d(Convolution):
    """Convolves with weights [out, kernel_h, kernel_w, in / groups]; outside the image the input is zero."""

    x: Value = operand()
    weights: Value = operand()
    bias: Value = operand()
    y: Value = result()
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: Sides = (0, 0, 0, 0)
    groups: int = 1
    low: int = -128
    high: int = 127

    @property
    def weights_out_channels(self) -> int:
        return self.weights.shape[0]

    @property
    def weights_per_output(self) -> Array:
        return self.weights.constant.reshape(self.weights.shape[0], -1)

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
        seen = windows(
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
    def examples(cls) -> Iterator[Op]:
        yield from samples.conv2d_examples(cls)


@op("depthwise_conv2d")
class DepthwiseConv2d(Convolution):
    """Convolves each input channel with filters of its own; weights [1, kernel_h, kernel_w, out], out = in * multiplier and output
    channel = input channel * multiplier + m."""

    x: Value = operand()
    weights: Value = operand()
    bias: Value = operand()
    y: Value = result()
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: Sides = (0, 0, 0, 0)
    low: int = -128
    high: int = 127

    @property
    def weights_out_channels(self) -> int:
        return self.weights.shape[3]

    @property
    def weights_per_output(self) -> Array:
        return self.weights.constant.reshape(-1, self.weights.shape[3]).T

    @property
    def depth_multiplier(self) -> int:
        """The number of filters of each input channel."""
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
        seen = windows(
            x.astype(np.float64) - self.x.zero_point, self.kernel, self.stride, self.dilation, self.padding
        )
        seen = np.repeat(seen, self.depth_multiplier, axis=-1)
        return np.asarray(np.einsum("nyxhwc,hwc->nyxc", seen, weights[0].astype(np.float64)))

    @classmethod
    def examples(cls) -> Iterator[Op]:
        yield from samples.depthwise_examples(cls)
