# SPDX-License-Identifier: Apache-2.0
"""Layers in 16 bits with weights and scales that use the range of their result, and sums at the edge of 32 bits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np

from pillion.ir.op import Op
from pillion.ir.types import DType, Pair, PerChannel, PerTensor, Shape, TensorType, Value, constant_value
from pillion.ops import Conv2d, DepthwiseConv2d, Linear
from pillion.ops.example_values import make_op
from pillion.ops.example_values import value as int8_value

WEIGHT_SCALE = 0.01
EDGE = 2**31 - 1


def value(name: str, shape: Shape, scale: float = 2.0**-10) -> Value:
    return Value(name, TensorType(shape, DType.INT16, PerTensor(scale)))


def layer(
    cls: type[Op], shape: Shape, weights_shape: Shape, seed: int, largest: int = 0, **fields: Any
) -> Any:
    """A layer whose sums fit 32 bits; with `largest`, that of the first channel reaches this with inputs of -2^15."""
    rng = np.random.default_rng([seed, *shape, *weights_shape])
    axis = 3 if cls is DepthwiseConv2d else 0
    out = weights_shape[axis]
    taps = math.prod(weights_shape) // out
    reach = max(min(127, 2**16 // taps - 2), 1)
    data = rng.integers(-reach, reach, weights_shape, endpoint=True).astype(np.int8)
    if seed % 5 == 0:
        data = rng.choice(np.array([-reach - 1, -reach, reach], np.int8), weights_shape)
    bias = rng.integers(-(2**14), 2**14, out).astype(np.int32)
    if largest:
        first = data[(0,)] if axis == 0 else data[..., 0]
        first[...] = np.resize([-reach, 1 - reach], first.size).reshape(first.shape)
        bias[0] = largest - (int(np.abs(first.astype(np.int64)).sum()) << 15)
        assert bias[0] > 0
    scales = rng.uniform(0.5, 1.6, out) * WEIGHT_SCALE if seed % 2 else np.full(out, 2.0**-7)
    weights = constant_value("w", data, PerChannel(tuple(scales.tolist()), axis))
    ratio = 2.0**-6 / math.sqrt(taps) if not largest else 2.0**-15
    y = value("y", (), 2.0**-10 * WEIGHT_SCALE / ratio)
    bounds = ({}, {"low": 0}, {"low": -700, "high": 21000})[seed % 3]
    full = {"low": -(2**15), "high": 2**15 - 1} | bounds | fields
    return make_op(cls, y, x=value("x", shape), weights=weights, bias=constant_value("b", bias), **full)


def conv2d(shape: Shape, out: int, kernel: Pair = (1, 1), seed: int = 0, **fields: Any) -> Conv2d:
    weights_shape = (out, *kernel, shape[3] // fields.get("groups", 1))
    made = layer(Conv2d, shape, weights_shape, seed, **fields)
    assert isinstance(made, Conv2d)
    return made


def depthwise(shape: Shape, kernel: Pair, seed: int = 0, filters: int = 1, **fields: Any) -> DepthwiseConv2d:
    made = layer(DepthwiseConv2d, shape, (1, *kernel, shape[3] * filters), seed, **fields)
    assert isinstance(made, DepthwiseConv2d)
    return made


def linear(rows: int, features: int, out: int, seed: int = 0, **fields: Any) -> Linear:
    made = layer(Linear, (rows, features), (out, features), seed, **fields)
    assert isinstance(made, Linear)
    return made


def with_8_bit_operands(layers: Iterable[Any]) -> Iterator[Any]:
    """The layers with operands of bytes, whose zero points are at both ends and between; results have the same range."""
    for op, zero in zip(layers, cycle((-128, 3, 127, 0)), strict=False):
        x = int8_value("x", op.x.shape, op.x.scale, zero)
        coarsest = max(op.weights.channel_scales) * x.scale
        y = value("y", op.y.shape, max(op.y.scale / 256, 2.001 * coarsest))
        yield replace(op, x=x, y=y)
