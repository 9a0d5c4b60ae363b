# SPDX-License-Identifier: Apache-2.0
"""Random networks over time: drawn once, built for windows of any length, so that what a stream answers can be compared with one run over
the whole signal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fuzz.choices import Choices
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import DType, PerChannel, PerTensor, TensorType, Value, constant_value
from pillion.ops import (
    Add,
    AvgPool2d,
    Clamp,
    Concat,
    Conv2d,
    DepthwiseConv2d,
    Linear,
    Lut,
    MaxPool2d,
    Mean,
    Pad,
    Prelu,
    ReduceMax,
    Reshape,
    ResizeNearest,
    Slice,
    Transpose,
)

HEADS = ("rows", "mean", "flatten", "max", "last", "pool")


@dataclass(frozen=True)
class Layer:
    """A layer with all that was drawn for it."""

    kind: str
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    channels: int = 1
    seed: int = 0

    @property
    def reach(self) -> int:
        """The rows that a window lacks at its ends."""
        return self.dilation * (self.kernel - 1)


@dataclass(frozen=True)
class TimeNet:
    """Layers over frames of `width` pixels and some channels. Time goes along axis 1 or 2."""

    layers: tuple[Layer, ...]
    width: int
    channels: int
    axis: int
    causal: bool
    head: str
    zero_point: int

    def graph(self, frames: int) -> Graph:
        """The network for so many frames."""
        return _Build(self, frames).graph()


def drawn(choices: Choices, causal: bool = False, head: str | None = None, layers: int = 5) -> TimeNet:
    """Draws a network."""
    kinds = [
        "conv",
        "depthwise",
        "lut",
        "maxpool",
        "residual",
        "branches",
        "clamp",
        "prelu",
        "pad",
        "conv",
        "depthwise",
    ]
    kinds += ["up"] if not causal else []
    kinds += ["avgpool", "skip"] if not causal else []
    made = []
    for _ in range(choices.integer(1, layers)):
        kind = choices.pick(kinds)
        is_strided = kind in ("conv", "depthwise", "maxpool", "avgpool") and choices.one_in(4)
        made.append(
            Layer(
                kind,
                choices.pick((3, 1, 2, 5)),
                choices.pick((2, 3)) if is_strided else 1,
                choices.pick((1, 2, 3)) if kind in ("conv", "depthwise", "residual") else 1,
                choices.pick((4, 7, 1, 8, 17)),
                choices.integer(0, 999),
            )
        )
    return TimeNet(
        tuple(made),
        choices.pick((1, 3, 5)),
        choices.pick((3, 1, 8, 5)),
        choices.pick((1, 2)),
        causal,
        head or choices.pick(HEADS),
        choices.pick((3, -128, 127, 0)),
    )


@dataclass
class _Build:
    net: TimeNet
    frames: int
    ops: list[Op] = field(default_factory=list)

    def graph(self) -> Graph:
        shape = self.shaped(self.frames, self.net.width, self.net.channels)
        x = y = Value("x", TensorType(shape, DType.INT8, PerTensor(0.05, self.net.zero_point)))
        for layer in self.net.layers:
            y = getattr(self, layer.kind)(y, layer)
        outputs = getattr(self, f"head_{self.net.head}")(y)
        return Graph("net", (x,), tuple(self.ops), outputs)

    def shaped(self, time: int, width: int, channels: int) -> tuple[int, ...]:
        return (1, time, width, channels) if self.net.axis == 1 else (1, width, time, channels)

    def pair(self, time: int, width: int = 1) -> tuple[int, int]:
        return (time, width) if self.net.axis == 1 else (width, time)

    def sides(self, front: int, back: int = 0) -> tuple[int, int, int, int]:
        return (front, 0, back, 0) if self.net.axis == 1 else (0, front, 0, back)

    def time(self, x: Value) -> int:
        return x.shape[self.net.axis]

    def put(
        self, cls: Any, quant: PerTensor | None, shape: tuple[int, ...] | None = None, **fields: Any
    ) -> Value:
        draft = cls(y=Value("y", TensorType(shape or (), DType.INT8, quant)), **fields)
        inferred = draft.infer()
        y = Value(f"v{len(self.ops)}", TensorType(inferred.shape, DType.INT8, quant))
        op = cls(y=y, **fields)
        op.check()
        self.ops.append(op)
        return y

    def weights(
        self, shape: tuple[int, ...], axis: int, seed: int, x: Value
    ) -> tuple[Value, Value, PerTensor]:
        rng = np.random.default_rng(seed)
        number = len(self.ops)
        scales = rng.uniform(0.004, 0.012, shape[axis])
        held = constant_value(
            f"w{number}",
            rng.integers(-127, 128, shape).astype(np.int8),
            PerChannel(tuple(scales.tolist()), axis),
        )
        bias_quant = PerChannel(tuple((held.channel_scales * x.scale).tolist()), 0)
        bias = constant_value(
            f"b{number}", rng.integers(-3000, 3000, shape[axis]).astype(np.int32), bias_quant
        )
        taps = math.prod(shape) // shape[axis]
        reach = 0.008 * 60 * 60 * math.sqrt(taps) * x.scale / 100
        return held, bias, PerTensor(reach, int(rng.integers(-20, 20)))

    def conv(self, x: Value, layer: Layer, front: int | None = None) -> Value:
        shape = (layer.channels, *self.pair(layer.kernel), x.shape[3])
        return self.windowed(Conv2d, x, layer, shape, 0, front)

    def depthwise(self, x: Value, layer: Layer) -> Value:
        return self.windowed(DepthwiseConv2d, x, layer, (1, *self.pair(layer.kernel), x.shape[3]), 3)

    def windowed(
        self, cls: Any, x: Value, layer: Layer, shape: tuple[int, ...], axis: int, front: int | None = None
    ) -> Value:
        held, bias, quant = self.weights(shape, axis, layer.seed, x)
        if front is None:
            front = layer.reach if self.net.causal else 0
        return self.put(
            cls,
            quant,
            x=x,
            weights=held,
            bias=bias,
            stride=self.pair(layer.stride),
            dilation=self.pair(layer.dilation),
            padding=self.sides(front),
        )

    def maxpool(self, x: Value, layer: Layer) -> Value:
        front = layer.kernel - 1 if self.net.causal else 0
        fields = {"kernel": self.pair(layer.kernel), "stride": self.pair(layer.stride)}
        return self.put(MaxPool2d, x.type.quant, x=x, padding=self.sides(front), **fields)

    def avgpool(self, x: Value, layer: Layer) -> Value:
        return self.put(
            AvgPool2d, x.type.quant, x=x, kernel=self.pair(layer.kernel), stride=self.pair(layer.stride)
        )

    def lut(self, x: Value, layer: Layer) -> Value:
        rng = np.random.default_rng(layer.seed)
        from pillion.ops import Function

        quant = PerTensor(1 / 256, -128)
        return (
            self.put(Lut, quant, x=x, function=Function.SIGMOID) if rng.integers(2) else self.clamp(x, layer)
        )

    def clamp(self, x: Value, layer: Layer) -> Value:
        return self.put(Clamp, x.type.quant, x=x, low=-100, high=90)

    def prelu(self, x: Value, layer: Layer) -> Value:
        rng = np.random.default_rng(layer.seed)
        slope = constant_value(
            f"s{len(self.ops)}", rng.integers(-127, 128, (x.shape[3],)).astype(np.int8), PerTensor(0.004, 0)
        )
        return self.put(Prelu, x.type.quant, x=x, slope=slope)

    def pad(self, x: Value, layer: Layer) -> Value:
        """Padding of its own before a convolution, in time where that is allowed and always to the sides."""
        wide = self.net.causal and layer.kernel > 1
        other = 2 if self.net.axis == 1 else 1
        before = [0, 0, 0, 0]
        before[self.net.axis], before[other] = (layer.reach if wide else 0), 1
        level = x.zero_point if layer.seed % 2 else -17
        padded = self.put(Pad, x.type.quant, x=x, before=tuple(before), after=(0, 0, 0, 0), value=level)
        again = self.clamp(padded, layer) if layer.seed % 3 == 0 else padded
        return self.conv(again, layer, 0)

    def residual(self, x: Value, layer: Layer) -> Value:
        same = Layer("conv", layer.kernel, 1, layer.dilation, x.shape[3], layer.seed)
        y = self.conv(x, same)
        cropped = x if self.net.causal else self.last(x, self.time(y))
        low = {"low": -120}
        return self.put(Add, y.type.quant, a=y, b=cropped, **low)

    def skip(self, x: Value, layer: Layer) -> Value:
        """The rows of a while ago, beside those of now."""
        kept = self.time(x) - layer.kernel
        early = self.rows(x, 0, kept)
        late = self.rows(x, layer.kernel, kept)
        return self.put(Concat, x.type.quant, xs=(early, late), axis=3)

    def branches(self, x: Value, layer: Layer) -> Value:
        one = self.maxpool(x, Layer("maxpool", layer.kernel, seed=layer.seed))
        other = self.depthwise(x, Layer("depthwise", layer.kernel, seed=layer.seed))
        both = self.put(Clamp, x.type.quant, x=one), self.put(Clamp, other.type.quant, x=other)
        return self.put(Add, x.type.quant, a=both[0], b=both[1])

    def up(self, x: Value, layer: Layer) -> Value:
        size = (x.shape[1] * self.pair(2)[0], x.shape[2] * self.pair(2)[1])
        return self.put(ResizeNearest, x.type.quant, x=x, size=size)

    def last(self, x: Value, count: int) -> Value:
        return self.rows(x, self.time(x) - count, count)

    def rows(self, x: Value, first: int, count: int) -> Value:
        begin = tuple(first if a == self.net.axis else 0 for a in range(4))
        shape = tuple(count if a == self.net.axis else d for a, d in enumerate(x.shape))
        return self.put(Slice, x.type.quant, shape, x=x, begin=begin, step=(1, 1, 1, 1))

    # --- heads

    def head_rows(self, x: Value) -> tuple[Value, ...]:
        return (x,)

    def head_mean(self, x: Value) -> tuple[Value, ...]:
        return x, self.put(Mean, PerTensor(0.02, 3), x=x, axes=(1, 2))

    def head_max(self, x: Value) -> tuple[Value, ...]:
        return (self.put(ReduceMax, x.type.quant, x=x, axes=(self.net.axis,), keepdims=True),)

    def head_last(self, x: Value) -> tuple[Value, ...]:
        return (self.last(x, 1),)

    def head_pool(self, x: Value) -> tuple[Value, ...]:
        return (self.put(AvgPool2d, x.type.quant, x=x, kernel=x.shape[1:3]),)

    def head_flatten(self, x: Value) -> tuple[Value, ...]:
        moved = self.put(Transpose, x.type.quant, x=x, order=(0, 3, 1, 2))
        flat = self.put(Reshape, x.type.quant, (1, moved.type.elements), x=moved)
        held, bias, quant = self.weights((5, flat.shape[1]), 0, 1, flat)
        return (self.put(Linear, quant, x=flat, weights=held, bias=bias),)


Fits = Callable[[int], bool]


def smallest_window(net: TimeNet, at_least: int, most: int = 200) -> int | None:
    """The least window, from some number of frames on, for which the network can be built."""
    for frames in range(at_least, most):
        try:
            net.graph(frames)
        except Exception:
            continue
        return frames
    return None
