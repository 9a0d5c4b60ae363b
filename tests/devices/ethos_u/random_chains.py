# SPDX-License-Identifier: Apache-2.0
"""Random chains of convolutions, pools, sums and concatenations: consecutive operations overlap in an Ethos-U, as far as BLOCKDEP lets them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import PerTensor, Shape, Value, constant_value
from pillion.ops import Add, Concat, Conv2d, DepthwiseConv2d, MaxPool2d, ResizeNearest
from pillion.ops.example_values import make_op, value

CHANNELS = (1, 3, 8, 16, 17, 24, 32, 33, 40, 48, 64, 80)
KERNELS = ((3, 3), (3, 3), (5, 5), (1, 3), (2, 2), (7, 7))


class ChainBuilder:
    """Appends ops of one seed to a chain; each reads the result of the one before, some an earlier one, too."""

    def __init__(self, seed: int, *, strided_1x1: bool) -> None:
        self.random, self.data = random.Random(seed), np.random.default_rng(seed)
        self.strided_1x1 = strided_1x1
        shape = (1, self.random.randint(1, 40), self.random.randint(1, 40), self.random.choice(CHANNELS))
        self.values, self.ops = [value("x", shape)], list[Op]()

    @property
    def last(self) -> Value:
        return self.values[-1]

    def add(self, kind: Callable[..., Any], *, keeps_scale: bool = False, **fields: Any) -> None:
        name = f"v{len(self.ops)}"
        y = (
            replace(self.last, name=name)
            if keeps_scale
            else value(name, (), 0.05, self.random.choice([0, 3]))
        )
        self.ops.append(make_op(kind, y, **fields))  # type: ignore[arg-type]  # an op's class
        self.values.append(self.ops[-1].results[0])

    def weights(self, shape: Shape, results: int) -> dict[str, Value]:
        data = self.data.integers(-127, 128, shape).astype(np.int8)
        bias = self.data.integers(-99, 99, results).astype(np.int32)
        number = len(self.ops)
        return {
            "weights": constant_value(f"w{number}", data, PerTensor(0.01)),
            "bias": constant_value(f"b{number}", bias, PerTensor(0.0005)),
        }

    def convolution(self, kernel: tuple[int, int]) -> None:
        pads = (kernel[0] // 2, kernel[1] // 2)
        if any(
            size + 2 * pad < side for size, pad, side in zip(self.last.shape[1:], pads, kernel, strict=False)
        ):
            return
        strided = self.random.random() < 1 / 3 and (kernel != (1, 1) or self.strided_1x1)
        results = self.random.choice(CHANNELS)
        self.add(
            Conv2d,
            x=self.last,
            **self.weights((results, *kernel, self.last.shape[3]), results),
            stride=(2, 2) if strided else (1, 1),
            padding=(*pads, *pads),
        )

    def depthwise(self) -> None:
        count = self.last.shape[3]
        self.add(DepthwiseConv2d, x=self.last, **self.weights((1, 3, 3, count), count), padding=(1, 1, 1, 1))

    def pool(self) -> None:
        if min(self.last.shape[1:3]) >= 2:
            stride = self.random.choice([(1, 1), (2, 2)])
            self.add(MaxPool2d, keeps_scale=True, x=self.last, kernel=(2, 2), stride=stride)

    def sum(self) -> None:
        if same := [v for v in self.values[:-1] if v.shape == self.last.shape]:
            self.add(Add, a=self.random.choice(same), b=self.last)

    def concat(self) -> None:
        quant, image = self.last.type.quant, self.last.shape[:3]
        if fitting := [v for v in self.values[:-1] if v.shape[:3] == image and v.type.quant == quant]:
            pair = [self.random.choice(fitting), self.last]
            self.random.shuffle(pair)
            self.add(Concat, keeps_scale=True, xs=tuple(pair), axis=3)

    def upsample(self) -> None:
        _, height, width, _ = self.last.shape
        if max(height, width) <= 20:
            self.add(ResizeNearest, keeps_scale=True, x=self.last, size=(2 * height, 2 * width))


def chain(seed: int, *, strided_1x1: bool = False) -> Graph:
    """Returns the chain of a seed: one to nine ops. Only with `strided_1x1` it may have 1x1 convolutions with stride 2."""
    made = ChainBuilder(seed, strided_1x1=strided_1x1)
    kinds: list[Callable[[], None]] = [
        *[lambda: made.convolution(made.random.choice(KERNELS))] * 3,
        lambda: made.convolution((1, 1)),
        made.depthwise,
        made.pool,
        made.sum,
        made.concat,
        made.upsample,
    ]
    for _ in range(made.random.randint(3, 9)):
        made.random.choice(kinds)()
    if not made.ops:
        made.depthwise()
    read = {v for op in made.ops for v in op.operands}
    outputs = tuple(v for v in made.values[1:] if v not in read)
    return Graph("chain", (made.values[0],), tuple(made.ops), outputs, Arithmetic.TFLITE_INTEGER)
