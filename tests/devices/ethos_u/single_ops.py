# SPDX-License-Identifier: Apache-2.0
"""Ops of any shape for an NPU to judge: one at random, with parameters around the limits of the rules."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np

from pillion.errors import PillionError
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, Shape, TensorType, Value, constant_value
from pillion.ops import (
    Add,
    AvgPool2d,
    BatchMatmul,
    Clamp,
    Concat,
    Conv2d,
    DepthwiseConv2d,
    Function,
    Linear,
    Lut,
    Maximum,
    MaxPool2d,
    Mean,
    Minimum,
    Mul,
    Pad,
    Prelu,
    ReduceMax,
    ReduceMin,
    ReduceSum,
    Requantize,
    Reshape,
    ResizeBilinear,
    ResizeNearest,
    Slice,
    Softmax,
    Sub,
    Transpose,
    TransposeConv2d,
)

SOFTMAX = PerTensor(1 / 256, -128)
SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9)


class Maker:
    """Makes one op after another from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def op(self) -> Op:
        """An op of any kind; shapes that an op refuses are tried again."""
        while True:
            try:
                op = self.random.choice(list(MAKERS))(self)
                op.check()
            except (ValueError, AssertionError, PillionError):
                continue
            return op

    def quant(self) -> PerTensor:
        pick = self.random.choice
        return PerTensor(pick([0.1, 0.05, 0.37, 0.5, 1.0]), pick([-128, -5, 0, 3, 127]))

    def shape(self, most: int = 5) -> Shape:
        return tuple(self.random.choice(SIZES) for _ in range(self.random.randint(1, most)))

    def image(self) -> Shape:
        pick, size = self.random.choice, self.random.randint
        return (pick([1, 1, 1, 2]), size(1, 19), size(1, 19), pick([1, 2, 3, 5, 8, 9, 16, 17, 33]))

    def window(self, image: Shape) -> tuple[int, int]:
        return self.random.randint(1, min(image[1], 9)), self.random.randint(1, min(image[2], 9))

    def border(self, window: tuple[int, int]) -> tuple[int, ...]:
        return tuple(
            self.random.choice([0, 0, self.random.randint(0, max(0, k - 1))]) for k in (*window, *window)
        )

    def pair(self, *numbers: int) -> tuple[int, int]:
        return self.random.choice(numbers), self.random.choice(numbers)

    def weights(self, shape: Shape) -> Value:
        seed = self.random.randrange(1 << 20)
        data = np.random.default_rng(seed).integers(-127, 128, shape, dtype=np.int8)
        return constant_value("w", data, PerTensor(0.01))


def value(name: str, shape: Shape, quant: PerTensor) -> Value:
    return Value(name, TensorType(shape, DType.INT8, quant))


def bias(count: int) -> Value:
    return constant_value("b", np.arange(count, dtype=np.int32), PerTensor(0.001))


def made(cls: type[Op], quant: PerTensor, **fields: object) -> Op:
    """The op with a result of the inferred shape."""
    op = cls(y=value("y", (), quant), **fields)  # type: ignore[call-arg]  # the fields of this op
    return cls(y=value("y", op.infer().shape, quant), **fields)  # type: ignore[call-arg]


def conv(m: Maker) -> Op:
    image = m.image()
    window, groups = m.window(image), m.random.choice([1, 1, 1, image[3]])
    results = m.random.choice([1, 4, 9, 16, 17]) if groups == 1 else groups * m.random.choice([1, 2])
    return made(
        Conv2d,
        m.quant(),
        x=value("x", image, m.quant()),
        weights=m.weights((results, *window, image[3] // groups)),
        bias=bias(results),
        groups=groups,
        stride=m.pair(1, 1, 2, 3, 4, 5),
        dilation=m.pair(1, 1, 2, 3),
        padding=m.border(window),
    )


def depthwise(m: Maker) -> Op:
    image, multiplier = m.image(), m.random.choice([1, 1, 1, 2, 3])
    window = m.window(image)
    return made(
        DepthwiseConv2d,
        m.quant(),
        x=value("x", image, m.quant()),
        weights=m.weights((1, *window, image[3] * multiplier)),
        bias=bias(image[3] * multiplier),
        stride=m.pair(1, 1, 2, 3, 4),
        dilation=m.pair(1, 1, 2),
        padding=m.border(window),
    )


def transposed(m: Maker) -> Op:
    image = m.image()
    window = m.window((0, 5, 5))
    stride = m.random.choice([(1, 1), (2, 2), (2, 2), (1, 2), (3, 3)])
    return made(
        TransposeConv2d,
        m.quant(),
        x=value("x", image, m.quant()),
        weights=m.weights((4, *window, image[3])),
        bias=bias(4),
        stride=stride,
        padding=m.border(window),
        output_padding=m.random.choice([(0, 0), (0, 0), (stride[0] - 1, 0)]),
    )


def linear(m: Maker) -> Op:
    shape = m.shape(4)
    return made(
        Linear, m.quant(), x=value("x", shape, m.quant()), weights=m.weights((7, shape[-1])), bias=bias(7)
    )


def matmul(m: Maker) -> Op:
    size, coin = m.random.randint, m.random.random
    batch, rows, depth, columns = size(1, 3), size(1, 9), size(1, 20), size(1, 9)
    left, right = coin() < 0.5, coin() < 0.5
    a = (batch, depth, rows) if left else (batch, rows, depth)
    b = (batch, columns, depth) if right else (batch, depth, columns)
    return made(
        BatchMatmul,
        m.quant(),
        a=value("a", a, m.quant()),
        b=value("b", b, m.quant()),
        adj_x=left,
        adj_y=right,
    )


def two(m: Maker) -> Op:
    kind, shape, quant = m.random.choice([Add, Sub, Mul, Minimum, Maximum]), m.shape(), m.quant()
    other = tuple(d if m.random.random() < 0.7 else 1 for d in shape)[m.random.choice([0, 0, 0, 1]) :]
    shared = kind in (Minimum, Maximum)
    a, b = (value(n, s, quant if shared else m.quant()) for n, s in (("a", shape), ("b", other)))
    if m.random.random() < 0.3:
        a, b = b, a
    return made(kind, quant if shared else m.quant(), a=a, b=b)


def table(m: Maker) -> Op:
    function = m.random.choice([f for f in Function if f is not Function.TABLE])
    quant = PerTensor(*function.fixed_output) if function.fixed_output else m.quant()
    bounds = {"low": -1.0, "high": 1.0} if function is Function.CLAMP else {}
    return made(Lut, quant, x=value("x", m.shape(), m.quant()), function=function, alpha=0.1, **bounds)


def prelu(m: Maker) -> Op:
    image = m.image()
    return made(Prelu, m.quant(), x=value("x", image, m.quant()), slope=m.weights((image[3],)))


def clamp(m: Maker) -> Op:
    quant = m.quant()
    low, high = m.random.randint(-128, 20), m.random.randint(21, 127)
    return made(
        Clamp, m.random.choice([quant, m.quant()]), x=value("x", m.shape(), quant), low=low, high=high
    )


def pool(m: Maker) -> Op:
    image, quant = m.image(), m.quant()
    window = m.window(image)
    border = tuple(min(p, k // 2) for p, k in zip(m.border(window), window + window, strict=True))
    fields = {
        "kernel": window,
        "stride": m.pair(1, 2, 3, 4),
        "padding": m.random.choice([(0, 0, 0, 0), border]),
    }
    return made(m.random.choice([AvgPool2d, MaxPool2d]), quant, x=value("x", image, quant), **fields)


def reduction(m: Maker) -> Op:
    shape, quant = m.shape(), m.quant()
    kind = m.random.choice([Mean, Mean, ReduceSum, ReduceMax, ReduceMin])
    axes = tuple(sorted(m.random.sample(range(len(shape)), m.random.randint(1, len(shape)))))
    result = quant if kind in (ReduceMax, ReduceMin) else m.quant()
    return made(kind, result, x=value("x", shape, quant), axes=axes, keepdims=m.random.random() < 0.5)


def softmax(m: Maker) -> Op:
    return made(Softmax, SOFTMAX, x=value("x", m.shape(), m.quant()))


def resize(m: Maker) -> Op:
    image, quant = m.image(), m.quant()
    corners, half = m.random.choice([(False, False), (True, False), (False, True)])
    less, factor = int(corners), m.random.choice([1, 2, 2, 4, 8, 3])
    other = factor if m.random.random() < 0.7 else m.random.choice([1, 2, 3, 4])
    size = tuple(max(1, (d - less) * f + less) for d, f in zip(image[1:3], (factor, other), strict=True))
    kind = m.random.choice([ResizeNearest, ResizeBilinear])
    return made(kind, quant, x=value("x", image, quant), size=size, align_corners=corners, half_pixel=half)


def concat(m: Maker) -> Op:
    shape, quant = list(m.shape()), m.quant()
    axis = m.random.randrange(len(shape))
    parts = [tuple(m.random.randint(1, 9) if a == axis else d for a, d in enumerate(shape)) for _ in range(3)]
    return made(
        Concat, quant, xs=tuple(value(f"x{n}", part, quant) for n, part in enumerate(parts)), axis=axis
    )


def slice_(m: Maker) -> Op:
    quant = m.quant()
    shape = tuple(m.random.randint(1, 9) for _ in range(m.random.randint(1, 5)))
    step = tuple(m.random.choice([1, 1, 1, 2, 3]) for _ in shape)
    begin = tuple(m.random.randint(0, d - 1) for d in shape)
    ends = [m.random.randint(1, (d - b - 1) // s + 1) for d, b, s in zip(shape, begin, step, strict=True)]
    return Slice(x=value("x", shape, quant), y=value("y", tuple(ends), quant), begin=begin, step=step)


def pad(m: Maker) -> Op:
    shape, quant = m.shape(), m.quant()
    sides = [tuple(m.random.randint(0, 2) for _ in shape) for _ in range(2)]
    return made(
        Pad, quant, x=value("x", shape, quant), before=sides[0], after=sides[1], value=quant.zero_point
    )


def reshape(m: Maker) -> Op:
    shape, quant = m.shape(), m.quant()
    to = m.random.choice([(math.prod(shape),), (1, math.prod(shape)), shape[::-1]])
    return Reshape(x=value("x", shape, quant), y=value("y", to, quant))


def transpose(m: Maker) -> Op:
    shape, quant = m.shape(), m.quant()
    order = tuple(m.random.sample(range(len(shape)), len(shape)))
    return made(Transpose, quant, x=value("x", shape, quant), order=order)


def requantize(m: Maker) -> Op:
    return made(Requantize, m.quant(), x=value("x", m.shape(), m.quant()))


MAKERS: tuple[Callable[[Maker], Op], ...] = (
    *(
        conv,
        conv,
        depthwise,
        depthwise,
        transposed,
        linear,
        matmul,
        two,
        two,
        table,
        prelu,
        clamp,
        pool,
        pool,
    ),
    *(reduction, reduction, softmax, resize, resize, concat, slice_, pad, reshape, transpose, requantize),
)
