# SPDX-License-Identifier: Apache-2.0
"""The small instances behind every op's `examples()`: channels around the vector width, zero points at the ends, scale
ratios around one and exact powers of two (where rounding ties occur), non-square prime shapes, batches."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, cast

import numpy as np

from pillion.ir.op import Op
from pillion.ir.types import Array, DType, PerChannel, PerTensor, Shape, TensorType, Value, constant

ZERO_POINTS = (-128, 0, 127, 5)
RATIOS = (1.0, 0.999, 1.001, 0.5, 0.25, 2.0)
"""Operand scale over result scale."""


def value(name: str, shape: Shape, scale: float = 0.05, zero_point: int = 0) -> Value:
    """Makes an int8 tensor."""
    return Value(name, TensorType(shape, DType.INT8, PerTensor(scale, zero_point)))


def real(name: str, shape: Shape) -> Value:
    """Makes a float32 tensor."""
    return Value(name, TensorType(shape, DType.FLOAT32))


def random_like(v: Value, seed: int = 0) -> Array:
    """Makes random data for an input: the whole range of integers, or a bell around zero for real numbers."""
    rng = np.random.default_rng([seed, *v.name.encode()])
    if v.dtype is DType.FLOAT32:
        return (rng.standard_normal(v.shape) * 3).astype(np.float32)
    low, high = v.dtype.bounds
    return rng.integers(low, high, v.shape, endpoint=True).astype(v.dtype.numpy)


def conv_weights(shape: Shape, axis: int, seed: int, *, power_of_two: bool = False) -> Value:
    """Makes random weights with a scale for each channel."""
    rng = np.random.default_rng(seed)
    scales = np.full(shape[axis], 2.0**-6) if power_of_two else rng.uniform(0.002, 0.02, shape[axis])
    data = rng.integers(-127, 127, shape, endpoint=True).astype(np.int8)
    return constant("weights", data, PerChannel(tuple(scales.tolist()), axis))


def conv_bias(x: Value, weights: Value, count: int, seed: int) -> Value:
    """Makes a random bias at the scales of the accumulators."""
    data = np.random.default_rng(seed + 1).integers(-2000, 2000, count).astype(np.int32)
    scales = tuple(float(s) * x.scale for s in weights.channel_scales)
    return constant("bias", data, PerChannel(scales, 0))


def make(cls: type[Op], y: Value, **fields: Any) -> Op:
    """Makes the op with the result's shape inferred."""
    made = cast("Any", cls)(y=y, **fields)
    shape = made.infer().shape
    return cast("Any", cls)(y=Value(y.name, TensorType(shape, y.dtype, y.type.quant)), **fields)


CONV_CASES: tuple[tuple[Shape, int, dict[str, Any]], ...] = (
    # input shape, output channels, what else
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


def conv2d_examples(cls: type[Op]) -> Iterator[Op]:
    """Gives examples of convolutions, with groups among them."""
    grouped = (
        ((1, 5, 7, 6), 4, {"kernel": (3, 3), "groups": 2, "padding": (1, 1, 1, 1)}),
        ((2, 3, 5, 9), 9, {"kernel": (1, 3), "groups": 3}),
    )
    for number, (shape, out, options) in enumerate(CONV_CASES + grouped):
        kernel, groups = options["kernel"], options.get("groups", 1)
        weights = conv_weights((out, *kernel, shape[3] // groups), 0, number, power_of_two=number % 3 == 2)
        yield _convolution(cls, number, shape, weights, {k: v for k, v in options.items() if k != "kernel"})


def depthwise_examples(cls: type[Op]) -> Iterator[Op]:
    """Gives examples of depthwise convolutions."""
    for number, (shape, out, options) in enumerate(CONV_CASES):
        multiplier = 3 if number == 3 else out if shape[3] == 1 else 1
        weights = conv_weights(
            (1, *options["kernel"], shape[3] * multiplier), 3, number, power_of_two=number % 3 == 2
        )
        yield _convolution(cls, number, shape, weights, {k: v for k, v in options.items() if k != "kernel"})


def _convolution(cls: type[Op], number: int, shape: Shape, weights: Value, options: dict[str, Any]) -> Op:
    x = value("x", shape, 2.0**-5 if number % 3 == 2 else 0.043, ZERO_POINTS[number % 4])
    out = len(cast("PerChannel", weights.type.quant).scales)
    y = value("y", (), (0.25, 1.7, 0.03, 2.0**-2)[number % 4], ZERO_POINTS[(number + 1) % 4])
    bounds = ({}, {"low": y.zero_point}, {"low": min(max(-100, y.zero_point), 100), "high": 120})[number % 3]
    return make(cls, y, x=x, weights=weights, bias=conv_bias(x, weights, out, number), **options, **bounds)


def linear_examples(cls: type[Op]) -> Iterator[Op]:
    """Gives examples of fully connected layers."""
    shapes = (((1, 1), 1), ((3, 7), 8), ((2, 3, 9), 5), ((1, 64), 10), ((5, 33), 17), ((1, 640), 128))
    for number, (shape, out) in enumerate(shapes):
        x = value("x", shape, 2.0**-4 if number % 2 else 0.031, ZERO_POINTS[number % 4])
        weights = conv_weights((out, shape[-1]), 0, number, power_of_two=number % 2 == 1)
        y = value("y", (), (2.0**-1, 0.37)[number % 2], ZERO_POINTS[(number + 2) % 4])
        bounds = {"low": y.zero_point} if number == 3 else {}
        yield make(cls, y, x=x, weights=weights, bias=conv_bias(x, weights, out, number), **bounds)


BROADCASTS: tuple[tuple[Shape, Shape], ...] = (
    ((2, 3, 5, 7), (2, 3, 5, 7)),
    ((1, 5, 3, 8), (1, 1, 1, 8)),
    ((1, 1, 1, 9), (2, 5, 3, 9)),
    ((2, 7, 3, 5), (2, 1, 3, 1)),
    ((3, 1, 5), (7, 1)),
    ((11,), (11,)),
    ((2, 3, 1, 1), (1,)),
)


def binary_examples(cls: type[Op]) -> Iterator[Op]:
    """Gives examples of ops of two operands, which repeat in all ways."""
    shared = cls.quantization.name == "SHARED"
    for number, (a_shape, b_shape) in enumerate(BROADCASTS):
        for ratio in RATIOS[number % 2 :: 2]:
            zero_point = ZERO_POINTS[number % 4]
            a = value("a", a_shape, 0.0625, zero_point)
            b = value(
                "b",
                b_shape,
                a.scale if shared else a.scale * ratio,
                zero_point if shared else ZERO_POINTS[(number + 1) % 4],
            )
            y = value(
                "y",
                (),
                a.scale if shared else a.scale * 1.5 if ratio != 0.5 else 0.125,
                zero_point if shared else ZERO_POINTS[(number + 3) % 4],
            )
            bounds = {"low": y.zero_point} if number == 1 and not shared else {}
            yield make(cls, y, a=a, b=b, **bounds)


def pool_examples(cls: type[Op]) -> Iterator[Op]:
    """Gives examples of pools."""
    cases: tuple[tuple[Shape, dict[str, Any]], ...] = (
        ((1, 5, 7, 1), {"kernel": (2, 2), "stride": (2, 2)}),
        ((2, 7, 5, 8), {"kernel": (3, 3), "stride": (2, 1), "padding": (1, 1, 1, 1)}),
        ((1, 7, 7, 9), {"kernel": (7, 7)}),
        ((1, 11, 3, 7), {"kernel": (3, 2), "stride": (3, 2), "padding": (1, 0, 2, 1)}),
        ((1, 25, 5, 33), {"kernel": (25, 5)}),
    )
    for number, (shape, options) in enumerate(cases):
        x = value("x", shape, 0.02, ZERO_POINTS[number % 4])
        yield make(cls, value("y", (), 0.02, x.zero_point), x=x, **options)


def reduce_examples(cls: type[Op]) -> Iterator[Op]:
    """Gives examples of means."""
    cases: tuple[tuple[Shape, tuple[int, ...], bool], ...] = (
        ((1, 5, 3, 8), (1, 2), True),
        ((2, 7, 5, 9), (1, 2), False),
        ((2, 3, 5, 7), (3,), True),
        ((3, 5, 7), (0, 2), False),
        ((2, 11), (1,), False),
        ((2, 1, 3, 5), (1,), False),
    )
    for number, (shape, axes, keepdims) in enumerate(cases):
        for ratio in RATIOS[number % 2 :: 2]:
            x = value("x", shape, 0.04, ZERO_POINTS[number % 4])
            y = value("y", (), 0.04 / ratio, ZERO_POINTS[(number + 1) % 4])
            yield make(cls, y, x=x, axes=axes, keepdims=keepdims)


def lut_examples(cls: type[Op], functions: type[Enum]) -> Iterator[Op]:
    """Gives an example of every function of one number."""
    for number, function in enumerate(functions):
        x = value("x", (2, 3, 7), 2.0**-4 if number % 2 else 0.043, ZERO_POINTS[number % 4])
        fixed = getattr(function, "fixed_output", None) or (2.0**-3, ZERO_POINTS[(number + 1) % 4])
        options: dict[str, Any] = {"alpha": 0.1} if function.value in ("leaky_relu", "elu") else {}
        if function.value == "clamp":
            options = {"low": -0.5, "high": 1.25}
        if function.value == "table":
            options = {
                "table": constant("table", np.random.default_rng(7).integers(-128, 128, 256).astype(np.int8))
            }
        yield make(cls, value("y", (), *fixed), x=x, function=function, **options)


def rescale_examples(cls: type[Op]) -> Iterator[Op]:
    """Gives examples of clamps and changes of scale."""
    for number, ratio in enumerate(RATIOS * 2):
        x = value("x", (2, 5, 33), 0.0625, ZERO_POINTS[number % 4])
        y = value("y", (), x.scale / ratio, ZERO_POINTS[(number // 2) % 4])
        yield make(cls, y, x=x, **({"low": -20, "high": 100} if cls.kind == "clamp" else {}))
    x = value("x", (7,), 0.1, 3)
    yield make(cls, value("y", (), 0.1, 3), x=x, **({"low": -3} if cls.kind == "clamp" else {}))


def softmax_examples(cls: type[Op], output: PerTensor) -> Iterator[Op]:
    """Gives examples of softmaxes, long and short."""
    for number, (shape, scale) in enumerate(
        (((1, 2), 0.1), ((2, 3, 7), 0.02), ((1, 33), 0.5), ((3, 1), 1.5), ((1, 1000), 0.004), ((2, 5), 40.0))
    ):
        yield make(
            cls,
            value("y", (), output.scale, output.zero_point),
            x=value("x", shape, scale, ZERO_POINTS[number % 4]),
        )


def border_examples(cls: type[Op]) -> Iterator[Op]:
    """Gives examples of the steps between float32 and int8."""
    for number, scale in enumerate((0.05, 2.0**-4, 1.0, 0.007)):
        quantized = value("x" if cls.kind == "dequantize" else "y", (2, 3, 11), scale, ZERO_POINTS[number])
        plain = real("y" if cls.kind == "dequantize" else "x", (2, 3, 11))
        first, second = (quantized, plain) if cls.kind == "dequantize" else (plain, quantized)
        yield make(cls, second, x=first)


MOVEMENT_CASES: dict[str, tuple[tuple[Shape, Shape, dict[str, Any]], ...]] = {
    # operand shape, result shape (where the op does not infer it), attributes
    "reshape": (((2, 3, 5, 7), (2, 105), {}), ((1, 7, 1, 3), (7, 3), {})),
    "transpose": (
        ((2, 3, 5, 7), (), {"order": (0, 2, 3, 1)}),
        ((2, 3, 5, 7), (), {"order": (0, 3, 1, 2)}),
        ((3, 5, 8), (), {"order": (2, 1, 0)}),
        ((9, 7), (), {"order": (1, 0)}),
        ((2, 3, 5, 2, 7), (), {"order": (4, 0, 2, 3, 1)}),
    ),
    "slice": (
        ((2, 7, 5, 9), (1, 3, 5, 4), {"begin": (1, 2, 0, 5), "step": (1, 1, 1, 1)}),
        ((11, 7), (4, 3), {"begin": (1, 0), "step": (3, 2)}),
    ),
    "pad": (
        ((2, 3, 5, 7), (), {"before": (0, 1, 2, 0), "after": (0, 0, 1, 0), "value": -5}),
        ((5, 3), (), {"before": (1, 1), "after": (2, 0), "value": 127}),
        ((1, 3, 5, 8), (), {"before": (0, 0, 0, 1), "after": (0, 0, 0, 8), "value": -128}),
    ),
    "concat": (((2, 3, 5, 7), (), {"axis": 3}), ((2, 3, 5, 7), (), {"axis": 1}), ((5,), (), {"axis": 0})),
}


def movement_examples(cls: type[Op]) -> Iterator[Op]:
    """Gives examples of ops that only move data."""
    for number, (shape, out_shape, attributes) in enumerate(MOVEMENT_CASES[cls.kind]):
        zero_point = ZERO_POINTS[number % 4]
        x, y = value("x", shape, 0.1, zero_point), value("y", out_shape, 0.1, zero_point)
        if cls.kind == "concat":
            axis = attributes["axis"]
            wider = tuple(d + 1 if i == axis else d for i, d in enumerate(shape))
            yield make(
                cls,
                y,
                xs=(x, value("x2", wider, 0.1, zero_point), value("x3", shape, 0.1, zero_point)),
                **attributes,
            )
        else:
            yield make(cls, y, x=x, **attributes)
