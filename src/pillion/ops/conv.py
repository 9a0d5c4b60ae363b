# SPDX-License-Identifier: Apache-2.0
"""Convolutions over NHWC images."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, TypeVar, cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.access import WHOLE, Access, AxisMap, Span, crop_tile_padding, window_maps
from pillion.ir.numerics import Arithmetic, Multipliers
from pillion.ir.op import Op, ScaledOp, op, operand, require_dtype, require_rank, result
from pillion.ir.types import Array, DType, Pair, PerChannel, Shape, Sides, TensorType, Value, constant_value
from pillion.ops.example_values import (
    ZERO_POINTS,
    conv_bias,
    conv_weights,
    in_16_bits,
    make_op,
    value,
    with_4_bits,
    with_16_bit_results,
)

Weighted = TypeVar("Weighted", bound=Any)
"""A convolution or a linear layer."""
BEYOND_SUMS = 2**47 - 2**31
"""The smallest number that no sum of 16-bit products and a bias of 64 bits reaches."""


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


class Convolution(ScaledOp):
    """The base class of regular and depthwise convolutions: bias, requantization, geometry. Multipliers are per
    output channel, or one for all."""

    is_identity = False
    weights_of_4_bits = False
    """Whether weights may have 4 bits."""

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

    @property
    def weights_out_channels(self) -> int:
        """The number of output channels according to the weights."""
        return self.weights.shape[0]

    @property
    def multipliers(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Mantissas and shifts of all output channels."""
        return numerics.mantissas_and_shifts(
            self.effective_multipliers(Arithmetic.CMSIS_NN), self.out_channels
        )

    @property
    def numbers_of_multipliers(self) -> tuple[int, ...]:
        return 1, self.weights_out_channels

    def from_scales(self, arithmetic: Arithmetic) -> Multipliers:
        scales = np.broadcast_to(self.weights.channel_scales, (self.out_channels,))
        return numerics.encode_multipliers(self.x.scale * scales / self.y.scale)

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
        return TensorType(self.output_shape, result_dtype(self))

    def has_own_int16_form(self, arithmetic: Arithmetic) -> bool:
        return widens(self)

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
        if self.x.dtype in (DType.INT8, DType.INT16):
            check_layer(self, self.weights_of_4_bits)

    def check_geometry(self) -> None:
        """Raises if windows or weights do not fit the image."""
        if min(self.output_shape[1:3]) < 1:
            raise self.refuse(
                "the window fits into the padded image", f"image {self.x.shape[1:3]}, kernel {self.kernel}"
            )

    @property
    def weights_per_output(self) -> Array:
        """The weights as [out_channels, taps]."""
        return self.weights.constant.reshape(self.weights.shape[0], -1)

    def sums(self, x: Array, weights: Array) -> NDArray[np.float64]:
        """Returns the sums of products of each output element, without bias."""
        raise NotImplementedError

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        if self.x.dtype is DType.INT8 and self.weights.is_constant and self.bias.is_constant:
            yield from largest_accumulators(self, self.weights_per_output)

    def accumulators(self, x: Array, weights: Array, bias: Array) -> NDArray[np.int64]:
        """Returns the accumulators that are requantized."""
        return self.sums(x, weights).astype(np.int64) + bias.astype(np.int64)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        """Requantizes the accumulators, adds the zero point, clamps."""
        return requantized(self, self.accumulators(*operands))


def requantized(op: Weighted, sums: NDArray[np.int64]) -> Array:
    """Returns the result of a layer: its accumulators in steps of the result, with the zero point, clamped."""
    scale = numerics.requantize_to_16_bits if op.y.dtype is DType.INT16 else numerics.requantize
    return np.clip(scale(sums, *op.multipliers) + op.y.zero_point, op.low, op.high).astype(op.y.dtype.numpy)


def widens(op: Weighted) -> bool:
    """Whether a layer makes 16-bit results from 8-bit operands."""
    return op.x.dtype is DType.INT8 and op.y.dtype is DType.INT16


def result_dtype(op: Weighted) -> DType:
    """Returns the type of a layer's result."""
    return DType.INT16 if widens(op) else op.x.dtype


def require_symmetric(op: Op, *values: Value) -> None:
    """Raises unless 16-bit tensors of a layer have the zero point 0."""
    for tensor in values:
        require_dtype(op, tensor, DType.INT16)
        if tensor.zero_point:
            raise op.refuse("16-bit operands and results of layers have the zero point 0", tensor.zero_point)


def check_layer(op: Weighted, of_4_bits: bool = True) -> None:
    """Raises if the types of an integer layer are wrong or an accumulator could exceed its bits."""
    require_weights(op, of_4_bits)
    require_bias(op)
    require_symmetric(op, *(v for v in (op.x, op.y) if v.dtype is DType.INT16))
    if (
        op.y.dtype is DType.INT16
        and op.y.is_quantized
        and (rights := numerics.to_15_bits(*op.multipliers)[1]).min(initial=1) < 1
    ):
        rule, found = "ratios of scales of 16-bit layers are below 2^15", f"up to 2^{15 - int(rights.min())}"
        raise op.refuse(rule, found, "calibrate with data that the model will see")
    if op.x.dtype is DType.INT8 and op.weights.is_constant and op.bias.is_constant:
        check_accumulator(op, op.x, op.weights_per_output, op.bias.constant)


def require_weights(op: Weighted, of_4_bits: bool = True) -> None:
    """Raises unless a layer's weights are int8, or constants of 4 bits where the layer takes them."""
    if op.weights.dtype is not DType.INT4 or not of_4_bits:
        require_dtype(op, op.weights, DType.INT8)
    elif not op.weights.is_constant:
        raise op.refuse("weights of 4 bits are constants", repr(op.weights))
    elif widens(op):
        raise op.refuse("layers with weights of 4 bits read and make tensors of one width", repr(op.y))


def require_bias(op: Weighted) -> None:
    """Raises unless a layer's bias is int32; or int64, if operands have 16 bits and sums can be multiplied."""
    if op.bias.dtype is not DType.INT64 or op.x.dtype is not DType.INT16:
        require_dtype(op, op.bias, DType.INT32)
    elif not (op.weights.is_constant and op.bias.is_constant):
        raise op.refuse("weights and biases of 64 bits are constants", repr(op.bias))
    elif (largest := largest_16_bit_sums(op).max(initial=0)) >= BEYOND_SUMS:
        help = "scale this layer's weights so that its biases are smaller"
        raise op.refuse("sums of 16-bit layers are below 2^47 - 2^31", f"up to {largest:.6g}", help)


def largest_16_bit_sums(op: Weighted) -> NDArray[np.float64]:
    """Returns the largest accumulator of each output of a layer with 16-bit operands; exact up to 2^53."""
    products = -DType.INT16.bounds[0] * numerics.row_magnitudes(op.weights_per_output)
    return products + np.abs(op.bias.constant.astype(np.float64))


def largest_scaled_16_bit_sum(op: Weighted) -> float:
    """Returns the largest accumulator of a layer with 16-bit operands, in steps of the result, before clamping."""
    mantissas, shifts = op.multipliers
    return float(
        (largest_16_bit_sums(op) * np.ldexp(mantissas.astype(np.float64), shifts - 31)).max(initial=0)
    )


def largest_accumulators(op: Weighted, weights: Array) -> Iterator[tuple[int, int]]:
    """Yields the largest accumulator of each output with the shift of its multiplier, for weights [outputs, taps]."""
    products = numerics.INT8_STEPS * numerics.row_magnitudes(weights)
    sums = products + np.abs(op.bias.constant.astype(np.int64))
    yield from zip(sums.tolist(), op.multipliers[1].tolist(), strict=True)


def check_accumulator(op: Op, x: Value, weights: Array, bias: Array) -> None:
    """Raises if an accumulator could exceed 32 bits, for weights [outputs, taps]. The bound holds for partial
    sums, too."""
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


def zero_dead_channel_biases(op: Weighted, fresh: Callable[[str], str]) -> Weighted:
    """Replaces the biases of dead channels, whose multiplier is zero, by zeros. Converters saturate such biases,
    which would exceed the accumulator's range for no reason."""
    outputs = op.weights_out_channels if isinstance(op, Convolution) else op.weights.shape[0]
    claimed = op.out_channels if isinstance(op, Convolution) else outputs
    if op.bias.shape != (outputs,) or claimed != outputs:  # the op's own check says so, after this
        return op
    try:
        idle = np.broadcast_to(op.multipliers[0] == 0, op.bias.shape)
    except ValueError:  # scales that no multiplier can reach: the op's own check says so
        return op
    if not idle.any():
        return op
    data = np.where(idle, 0, op.bias.constant)
    if data.min() >= numerics.INT32_MIN and data.max() <= numerics.INT32_MAX:
        data = data.astype(np.int32)
    return dataclasses.replace(op, bias=constant_value(fresh(op.bias.name), data, op.bias.type.quant))


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
    def examples(cls) -> Iterator[Op]:
        made = list(cls._examples())
        wide = with_4_bits(made, DType.INT16)
        return chain(made, with_4_bits(made), wide, with_16_bit_results(made))

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
    def examples(cls) -> Iterator[Op]:
        made = list(cls._examples())
        return chain(made, with_16_bit_results(made))

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
