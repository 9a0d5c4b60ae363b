# SPDX-License-Identifier: Apache-2.0
"""Ops of any shape with weights and scales that use the whole range of their result."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, TypeVar, cast

import numpy as np

from pillion.ir.op import Op
from pillion.ir.types import DType, Pair, PerChannel, PerTensor, Shape, TensorType, Value, constant_value
from pillion.ops.conv import Conv2d, DepthwiseConv2d
from pillion.ops.linear import Linear
from pillion.ops.transpose_conv import TransposeConv2d

ZERO_POINTS = (-128, 0, 127, 5, -37)
BOUNDS = ({}, {}, {"low": 0}, {"low": -20, "high": 90})
"""Relative to the zero point of the result: none, relu, relu6 and others."""
IN_SCALE, WEIGHT_SCALE = 0.04, 0.01
SPREAD = 80 * 74
"""Standard deviation of an input times that of a weight."""


def value(name: str, shape: Shape, scale: float, zero_point: int) -> Value:
    return Value(name, TensorType(shape, DType.INT8, PerTensor(scale, zero_point)))


def weights_of(shape: Shape, axis: int, rng: np.random.Generator, seed: int) -> Value:
    """Every third time with the value -128; scales that differ by channel."""
    data = rng.integers(-128 if seed % 3 == 0 else -127, 127, shape, endpoint=True).astype(np.int8)
    if seed % 5 == 0:
        data = rng.choice(np.array([-128, -127, 127], np.int8), shape)
    return constant_value(
        "weights", data, PerChannel(tuple((rng.uniform(0.4, 1.6, shape[axis]) * WEIGHT_SCALE).tolist()), axis)
    )


def infer(cls: type[Op], y: Value, **fields: Any) -> Any:
    shape = cls(y=y, **fields).infer().shape  # type: ignore[call-arg]  # the fields of this op
    return cls(y=Value(y.name, TensorType(shape, y.dtype, y.type.quant)), **fields)  # type: ignore[call-arg]  # the fields of this op


def bias_of(count: int, taps: int, rng: np.random.Generator) -> Value:
    reach = int(SPREAD * math.sqrt(taps))
    return constant_value("bias", rng.integers(-reach, reach, count, endpoint=True).astype(np.int32))


def products(
    cls: type[Op], shape: Shape, weights_shape: Shape, axis: int, seed: int, out_zp: int | None, **fields: Any
) -> Any:
    rng = np.random.default_rng([seed, *shape, *weights_shape])
    out = weights_shape[axis]
    taps = math.prod(weights_shape) // out
    x = value("x", shape, IN_SCALE, ZERO_POINTS[seed % 5])
    zp = ZERO_POINTS[(seed + seed // 5) % 5] if out_zp is None else out_zp
    y = value("y", (), IN_SCALE * WEIGHT_SCALE * SPREAD * math.sqrt(taps) / 45, zp)
    if not {"low", "high"} & fields.keys():
        fields |= {name: max(-128, min(127, zp + bound)) for name, bound in BOUNDS[seed % 4].items()}
    weights = weights_of(weights_shape, axis, rng, seed)
    return infer(cls, y, x=x, weights=weights, bias=bias_of(out, taps, rng), **fields)


def conv2d(
    shape: Shape, out: int, kernel: Pair = (1, 1), *, seed: int = 0, out_zp: int | None = None, **fields: Any
) -> Conv2d:
    weights_shape = (out, *kernel, shape[3] // fields.get("groups", 1))
    return cast("Conv2d", products(Conv2d, shape, weights_shape, 0, seed, out_zp, **fields))


def transpose_conv2d(
    shape: Shape, out: int, kernel: Pair, *, seed: int = 0, **fields: Any
) -> TransposeConv2d:
    weights_shape = (out, *kernel, shape[3])
    return cast("TransposeConv2d", products(TransposeConv2d, shape, weights_shape, 0, seed, None, **fields))


def transpose_conv2d_of_every_kind(
    channels: Sequence[int], out_channels: Sequence[int]
) -> Iterator[TransposeConv2d]:
    """Kernels below, at and above the stride, paddings that cut taps off, and widths that are whole strides."""
    for seed, (kernel, stride) in enumerate(product((1, 2, 3, 4, 5), (1, 2, 3))):
        for number, padding in enumerate(((0, 0, 0, 0), (1, 0, 0, 2), (0, 1, 2, 0), (2, 3, 1, 1))):
            i = 4 * seed + number
            made = transpose_conv2d(
                (1 + i % 2, 5 + i % 3, 5 + i % 4, channels[i % len(channels)]),
                out_channels[i % len(out_channels)],
                (kernel, 1 + (kernel + i) % 4),
                seed=i,
                stride=(stride, 1 + (stride + number) % 3),
                dilation=(1 + i % 2, 1 + i // 3 % 2),
                padding=padding,
                output_padding=(i % 2 if stride > 1 else 0, 0),
            )
            if min(made.output_shape) > 0:
                yield made


def depthwise(
    shape: Shape,
    kernel: Pair,
    *,
    multiplier: int = 1,
    seed: int = 0,
    out_zp: int | None = None,
    **fields: Any,
) -> DepthwiseConv2d:
    weights_shape = (1, *kernel, shape[3] * multiplier)
    return cast("DepthwiseConv2d", products(DepthwiseConv2d, shape, weights_shape, 3, seed, out_zp, **fields))


def linear(
    rows: int, features: int, out: int, *, seed: int = 0, out_zp: int | None = None, **fields: Any
) -> Linear:
    return cast("Linear", products(Linear, (rows, features), (out, features), 0, seed, out_zp, **fields))


Product = TypeVar("Product", Conv2d, Linear)


def with_pruned_channel(op: Product, channel: int, bias: int) -> Product:
    """A channel has nothing but its bias, and the tiny scale that quantizers give it."""
    weights, biases = op.weights.constant.copy(), op.bias.constant.copy()
    weights[channel], biases[channel] = 0, bias
    quant = op.weights.type.quant
    assert isinstance(quant, PerChannel)
    scales = tuple(1e-10 if i == channel else scale for i, scale in enumerate(quant.scales))
    return replace(
        op,
        weights=constant_value("weights", weights, PerChannel(scales, quant.axis)),
        bias=constant_value("bias", biases),
    )
