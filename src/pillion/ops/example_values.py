# SPDX-License-Identifier: Apache-2.0
"""Values for the `examples()` of ops: channels around the vector width, zero points at the ends, scale ratios
around one and exact powers of two (where rounding ties occur), non-square prime shapes, batches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from pillion.ir.op import Op
from pillion.ir.types import Array, DType, PerChannel, PerTensor, Shape, TensorType, Value, constant_value

Fields = Mapping[str, Any]
"""Attributes of an op."""
ZERO_POINTS = (-128, 0, 127, 5)
RATIOS = (1.0, 0.999, 1.001, 0.5, 0.25, 2.0)
"""Operand scale over result scale."""
DEVIATION = 256 / math.sqrt(12)
"""The standard deviation of uniformly distributed int8 values."""
BROADCASTS: tuple[tuple[Shape, Shape], ...] = (
    ((2, 3, 5, 7), (2, 3, 5, 7)),
    ((1, 5, 3, 8), (1, 1, 1, 8)),
    ((1, 1, 1, 9), (2, 5, 3, 9)),
    ((2, 7, 3, 5), (2, 1, 3, 1)),
    ((3, 1, 5), (7, 1)),
    ((11,), (11,)),
    ((2, 3, 1, 1), (1,)),
)
"""Shapes of two operands that broadcast."""


def value(name: str, shape: Shape, scale: float = 0.05, zero_point: int = 0) -> Value:
    """Returns an int8 value with one scale and zero point."""
    return Value(name, TensorType(shape, DType.INT8, PerTensor(scale, zero_point)))


def in_16_bits(v: Value) -> Value:
    """Returns a value of the same range in 16 bits, symmetric."""
    quant = PerTensor(v.scale / 256)
    return Value(v.name, TensorType(v.shape, DType.INT16, quant))


def with_4_bits(layers: Iterable[Any], of: DType = DType.INT8) -> Iterator[Op]:
    """Yields the layers with operands of type `of`, with weights of 4 bits over the same range; some weights are
    -8."""
    for number, op in enumerate(op for op in layers if op.x.dtype is op.y.dtype is of):
        lowest = -8 if number % 4 == 3 else -7
        data = np.where(op.weights.constant < -110, lowest, np.round(op.weights.constant / 18))
        quant = PerChannel(tuple((18 * op.weights.channel_scales).tolist()), 0)
        weights = constant_value("weights", data.astype(np.int8), quant, DType.INT4)
        yield replace(op, weights=weights, bias=conv_bias(op.x, weights, len(data), number))


def with_16_bit_results(layers: Iterable[Any]) -> Iterator[Op]:
    """Yields the layers of 8 bits with results of 16, in steps of two of a sum at least."""
    for op in layers:
        if op.x.dtype is op.y.dtype is DType.INT8:
            finest = 2.001 * op.x.scale * max(op.weights.channel_scales)
            quant = PerTensor(max(op.y.scale / 256, finest))
            low, high = DType.INT16.bounds
            y = op.y.like("y", dtype=DType.INT16, quant=quant)
            yield replace(op, y=y, low=0 if op.low == op.y.zero_point else low, high=high)


def float_value(name: str, shape: Shape) -> Value:
    """Returns a float32 value."""
    return Value(name, TensorType(shape, DType.FLOAT32))


def random_like(v: Value, seed: int = 0) -> Array:
    """Returns random data for an input: uniform integers, or normally distributed real numbers."""
    rng = np.random.default_rng([seed, *v.name.encode()])
    if v.dtype is DType.FLOAT32:
        return (rng.standard_normal(v.shape) * 3).astype(np.float32)
    low, high = v.dtype.bounds
    return rng.integers(low, high, v.shape, endpoint=True).astype(v.dtype.numpy)


def conv_weights(shape: Shape, axis: int, seed: int, *, power_of_two: bool = False) -> Value:
    """Returns random int8 weights with a scale per index of an axis."""
    rng = np.random.default_rng(seed)
    scales = np.full(shape[axis], 2.0**-6) if power_of_two else rng.uniform(0.002, 0.02, shape[axis])
    data = rng.integers(-127, 127, shape, endpoint=True).astype(np.int8)
    return constant_value("weights", data, PerChannel(tuple(scales.tolist()), axis))


def conv_bias(x: Value, weights: Value, count: int, seed: int) -> Value:
    """Returns a random int32 bias at the accumulator's scale."""
    data = np.random.default_rng(seed + 1).integers(-2000, 2000, count).astype(np.int32)
    scales = tuple(float(s) * x.scale for s in weights.channel_scales)
    return constant_value("bias", data, PerChannel(scales, 0))


def make_op(cls: type[Op], y: Value, **fields: Any) -> Op:
    """Makes an op and infers the result's shape."""
    op = cast("Any", cls)(y=y, **fields)
    shape = op.infer().shape
    return cast("Any", cls)(y=Value(y.name, TensorType(shape, y.dtype, y.type.quant)), **fields)


def example_pairs(shared: bool = False) -> Iterator[tuple[int, Value, Value, float]]:
    """Yields operands that broadcast: the number of the pair of shapes, both operands, and the ratio of their scales.
    If they are `shared`, scale and zero point are the same."""
    for number, (a_shape, b_shape) in enumerate(BROADCASTS):
        for ratio in RATIOS[number % 2 :: 2]:
            a = value("a", a_shape, 0.0625, ZERO_POINTS[number % 4])
            b = value("b", b_shape, a.scale * ratio, ZERO_POINTS[(number + 1) % 4])
            yield number, a, a.like("b", shape=b_shape) if shared else b, ratio


def rescale_examples(cls: type[Op], some: Fields, other: Fields) -> Iterator[Op]:
    """Yields examples of an op that requantizes: some attributes at several ratios, others at ratio 1."""
    for number, ratio in enumerate(RATIOS * 2):
        x = value("x", (2, 5, 33), 0.0625, ZERO_POINTS[number % 4])
        y = value("y", (), x.scale / ratio, ZERO_POINTS[(number // 2) % 4])
        yield make_op(cls, y, x=x, **some)
    x = value("x", (7,), 0.1, 3)
    yield make_op(cls, value("y", (), 0.1, 3), x=x, **other)


def result_for(middle: float, deviation: float, number: int) -> Value:
    """Returns a result value with a range that holds most of the values expected around `middle`; some saturate.
    Every second value has a power of two as its scale."""
    reach = abs(middle) + 2 * deviation
    scale = reach / 200
    if number % 2:
        scale = 2.0 ** math.ceil(math.log2(scale))
    one_sided = abs(middle) > deviation
    zero_point = (-128 if middle > 0 else 127) if one_sided else (0, 5, -31, 17)[number % 4]
    return value("y", (), scale, zero_point)


def level_center(v: Value) -> float:
    """Returns the mean of uniformly distributed levels, less the zero point."""
    return -0.5 - v.zero_point


def constant_like(v: Value, seed: int) -> Value:
    """Returns a random constant with the name, shape and scale of a value."""
    data = np.random.default_rng(seed).integers(-128, 127, v.shape, endpoint=True).astype(np.int8)
    return constant_value(v.name, data, v.type.quant)
