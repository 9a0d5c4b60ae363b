# SPDX-License-Identifier: Apache-2.0
"""The small instances behind the examples of products of tensors, resizing, reductions and divisions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from pillion.ir.op import Op
from pillion.ir.types import PerTensor, Shape, Value, constant
from pillion.ops.samples import BROADCASTS, RATIOS, ZERO_POINTS, conv_bias, conv_weights, make, value

DEVIATION = 256 / math.sqrt(12)
"""The standard deviation of int8 values that are all equally likely."""


def result_for(middle: float, deviation: float, number: int) -> Value:
    """Makes a result whose range holds most of what is expected around `middle`: some of it saturates, little is lost. Every
    second one has a power of two as its scale."""
    reach = abs(middle) + 2 * deviation
    scale = reach / 200
    if number % 2:
        scale = 2.0 ** math.ceil(math.log2(scale))
    one_sided = abs(middle) > deviation
    zero_point = (-128 if middle > 0 else 127) if one_sided else (0, 5, -31, 17)[number % 4]
    return value("y", (), scale, zero_point)


def center(v: Value) -> float:
    """Gives the mean of uniform levels, less the zero point."""
    return -0.5 - v.zero_point


def matmul_examples(cls: type[Op]) -> Iterator[Op]:
    """Gives examples of matrix products of two tensors, transposed or not."""
    sizes = ((1, 1, 1, 1), (2, 3, 5, 7), (3, 7, 8, 9), (2, 5, 33, 17), (1, 13, 64, 16))
    for number, (batch, rows, depth, columns) in enumerate(sizes):
        for adj_x, adj_y in ((False, False), (True, False), (False, True), (True, True)):
            case = 4 * number + 2 * adj_x + adj_y
            a_shape = (batch, depth, rows) if adj_x else (batch, rows, depth)
            b_shape = (batch, columns, depth) if adj_y else (batch, depth, columns)
            a = value("a", a_shape, 2.0**-5, ZERO_POINTS[case % 4])
            b = value("b", b_shape, 2.0**-4 if number % 2 else 0.043, ZERO_POINTS[case // 2 % 4])
            if number == 3:
                b = _constant_like(b, case)
            product, spread = center(a) * center(b), DEVIATION * math.hypot(DEVIATION, center(a), center(b))
            unit = a.scale * b.scale
            y = result_for(unit * depth * product, unit * math.sqrt(depth) * spread, case)
            bounds = {"low": -100, "high": 90} if case % 5 == 4 else {}
            yield make(cls, y, a=a, b=b, adj_x=adj_x, adj_y=adj_y, **bounds)


def _constant_like(v: Value, seed: int, low: int = -128) -> Value:
    data = np.random.default_rng(seed).integers(low, 127, v.shape, endpoint=True).astype(np.int8)
    return constant(v.name, data, v.type.quant)


TRANSPOSE_CONV_CASES: tuple[tuple[Shape, int, tuple[int, int], dict[str, Any]], ...] = (
    # input shape, output channels, kernel, what else
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


def transpose_conv_examples(cls: type[Op]) -> Iterator[Op]:
    """Gives examples of transposed convolutions."""
    for number, (shape, out, kernel, options) in enumerate((*TRANSPOSE_CONV_CASES, DILATED_CASE)):
        x = value("x", shape, 2.0**-5 if number % 3 == 2 else 0.043, ZERO_POINTS[number % 4])
        weights = conv_weights((out, *kernel, shape[3]), 0, number, power_of_two=number % 3 == 2)
        taps = (
            math.prod(-(-k // s) for k, s in zip(kernel, options.get("stride", (1, 1)), strict=True))
            * shape[3]
        )
        spread = (
            math.sqrt(taps)
            * 73
            * math.hypot(DEVIATION, center(x))
            * x.scale
            * float(weights.channel_scales.mean())
        )
        y = result_for(0, spread, number)
        bounds = ({}, {"low": y.zero_point}, {"low": -100, "high": 90})[number % 3]
        yield make(cls, y, x=x, weights=weights, bias=conv_bias(x, weights, out, number), **options, **bounds)


RESIZES: tuple[tuple[Shape, tuple[int, int]], ...] = (
    ((1, 3, 5, 8), (6, 10)),
    ((2, 5, 3, 7), (13, 11)),
    ((1, 7, 2, 1), (7, 16)),
    ((1, 13, 11, 3), (5, 4)),
    ((1, 1, 1, 9), (3, 1)),
    ((1, 4, 31, 2), (1, 8)),
)


def resize_examples(cls: type[Op]) -> Iterator[Op]:
    """Gives examples of resizes with all ways of finding positions."""
    for number, (shape, size) in enumerate(RESIZES):
        for align_corners, half_pixel in ((False, False), (True, False), (False, True)):
            x = value("x", shape, 0.1, ZERO_POINTS[number % 4])
            yield make(
                cls,
                value("y", (), 0.1, x.zero_point),
                x=x,
                size=size,
                align_corners=align_corners,
                half_pixel=half_pixel,
            )


PRELUS: tuple[tuple[Shape, Shape], ...] = (
    ((2, 3, 5, 7), (7,)),
    ((1, 5, 3, 8), (1,)),
    ((2, 7, 5, 3), (7, 1, 1)),
    ((3, 11), (11,)),
    ((2, 9, 33), (1, 9, 1)),
    ((1, 5, 1), (1, 1)),
)


def prelu_examples(cls: type[Op]) -> Iterator[Op]:
    """Gives examples of leaky relus whose slope is a tensor."""
    for number, (shape, slope_shape) in enumerate(PRELUS):
        for ratio in RATIOS[number % 2 :: 2]:
            x = value("x", shape, 0.0625, ZERO_POINTS[number % 4])
            slope = value(
                "slope", slope_shape, 2.0**-7 if number % 2 else 0.0071, (0, 0, 127, -128)[number % 4]
            )
            if number != 4:
                slope = _constant_like(slope, number)
            y = value("y", (), x.scale / ratio, (x.zero_point, 5, -31, x.zero_point)[number % 4])
            yield make(cls, y, x=x, slope=slope)


def reduction_examples(cls: type[Op]) -> Iterator[Op]:
    """Gives examples of sums and extrema over some axes."""
    cases: tuple[tuple[Shape, tuple[int, ...], bool], ...] = (
        ((1, 5, 3, 8), (1, 2), True),
        ((2, 7, 5, 9), (1, 2), False),
        ((2, 3, 5, 7), (3,), True),
        ((3, 5, 7), (0, 2), False),
        ((2, 11), (1,), False),
        ((2, 1, 3, 5), (1,), False),
        ((3, 7), (0, 1), False),
        ((2, 3, 5, 7), (1, 3), False),
    )
    shared = cls.quantization.name == "SHARED"
    for number, (shape, axes, keepdims) in enumerate(cases):
        for ratio in RATIOS[number % 2 :: 2] if not shared else (1.0,):
            x = value("x", shape, 0.0625, ZERO_POINTS[number % 4])
            count = math.prod(shape[axis] for axis in axes)
            y = value("y", (), x.scale, x.zero_point)
            if not shared:
                y = result_for(x.scale * count * center(x), x.scale * math.sqrt(count) * DEVIATION, number)
                y = value("y", (), y.scale / ratio, y.zero_point)
            yield make(cls, y, x=x, axes=axes, keepdims=keepdims)


def div_examples(cls: type[Op]) -> Iterator[Op]:
    """Gives examples of divisions, some with ratios of scales for which LiteRT is defined (a result in fine steps), constants
    without zeros among them."""
    for number, (a_shape, b_shape) in enumerate(BROADCASTS):
        for ratio in (0.25, 3.7, 128.0):
            a = value("a", a_shape, 0.0625, ZERO_POINTS[number % 4])
            b = value("b", b_shape, 0.05, ZERO_POINTS[(number + 1) % 4])
            if number % 2:
                b = _without_zeros(b)
            zero_point = 0 if ratio > 1 else -128 if center(a) * center(b) > 0 else 127
            y = value("y", (), a.scale / (b.scale * ratio), zero_point)
            yield make(cls, y, a=a, b=b, **({"low": -100, "high": 90} if number == 1 else {}))


def _without_zeros(v: Value) -> Value:
    held = _constant_like(v, 5).constant
    data = np.where(
        held == v.zero_point, np.int8(v.zero_point - 1 if v.zero_point > 0 else v.zero_point + 1), held
    )
    return constant(v.name, data.astype(np.int8), PerTensor(v.scale, v.zero_point))
