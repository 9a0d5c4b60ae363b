# SPDX-License-Identifier: Apache-2.0
"""Nets in float as TFLite files: with fused activations, weights in 32 or 16 bits, or in 8 with scales."""

from __future__ import annotations

from typing import Any

import numpy as np
from net_file import NetFile

from pillion.ir.types import Array
from pillion.schemas import tflite
from pillion.schemas.tflite import ElementType, Padding


class FloatFile(NetFile):
    """A file whose activations are float32. `weights` says how its weights are stored: `float32`, `float16` or `int8`."""

    def __init__(self, seed: int = 0, weights: str = "float32") -> None:
        super().__init__(seed, "float32")
        self.stored = weights

    def weights(self, data: Array, axis: int = 0, per_channel: bool = True) -> int:
        """The tensor of weights, behind a DEQUANTIZE where they have 16 bits."""
        data = data.astype(np.float32)
        if self.stored == "float32":
            return self.constant(data)
        if self.stored == "float16":
            half = self.constant(data.astype(np.float16))
            return self.add("DEQUANTIZE", [half], self.tensor(*data.shape), tflite.DequantizeOptions())
        others = tuple(a for a in range(data.ndim) if a != axis) if per_channel else None
        scales = np.atleast_1d(np.abs(data).max(axis=others) / 127).astype(np.float32)
        shape = [-1 if a == axis else 1 for a in range(data.ndim)] if per_channel else [1] * data.ndim
        levels = np.rint(data / scales.reshape(shape)).astype(np.int8)
        quant = tflite.Quantization(
            scale=scales.tolist(), zero_point=[0] * len(scales), quantized_dimension=axis
        )
        return self.constant(levels, type=ElementType.INT8, quantization=quant)

    def random(self, *shape: int, fan: int) -> Array:
        return self.rng.normal(0, fan**-0.5, shape)

    def conv(self, x: int, out: int, kernel: int = 3, stride: int = 1, activation: int = 3) -> int:
        _, h, w, c = self.shape(x)
        y = self.tensor(1, -(-h // stride), -(-w // stride), out)
        operands = [
            x,
            self.weights(self.random(out, kernel, kernel, c, fan=c * kernel**2)),
            self.constant(self.rng.normal(0, 0.1, out).astype(np.float32)),
        ]
        options = tflite.Conv2DOptions(
            padding=Padding.SAME, stride_h=stride, stride_w=stride, fused_activation=activation
        )
        return self.add("CONV_2D", operands, y, options)

    def depthwise(self, x: int, stride: int = 1, activation: int = 3) -> int:
        _, h, w, c = self.shape(x)
        y = self.tensor(1, -(-h // stride), -(-w // stride), c)
        operands = [
            x,
            self.weights(self.random(1, 3, 3, c, fan=9), axis=3),
            self.constant(self.rng.normal(0, 0.1, c).astype(np.float32)),
        ]
        options = tflite.DepthwiseConv2DOptions(
            padding=Padding.SAME, stride_h=stride, stride_w=stride, depth_multiplier=1
        )
        options.fused_activation = activation
        return self.add("DEPTHWISE_CONV_2D", operands, y, options)

    def unary(self, code: str, x: int, options: Any = None) -> int:
        return self.add(code, [x], self.tensor(*self.shape(x)), options)

    def connected(self, x: int, out: int) -> int:
        features = int(np.prod(self.shape(x)))
        operands = [
            x,
            self.weights(self.random(out, features, fan=features), per_channel=False),
            self.constant(self.rng.normal(0, 0.1, out).astype(np.float32)),
        ]
        return self.add("FULLY_CONNECTED", operands, self.tensor(1, out), tflite.FullyConnectedOptions())


def mobile(weights: str = "float32", seed: int = 5) -> bytes:
    """Separable convolutions with strides on odd sizes, a shortcut, a prelu, a resize, a mean, a classifier."""
    net = FloatFile(seed, weights)
    x = net.conv(net.input(1, 31, 25, 3, name="image"), 8, stride=2)
    x = net.conv(net.depthwise(x, stride=2), 16, kernel=1)
    y = net.conv(net.depthwise(x, activation=0), 16, kernel=1, activation=0)
    x = net.add("ADD", [x, y], net.tensor(*net.shape(x)), tflite.AddOptions(fused_activation=1))
    slope = net.constant(net.rng.uniform(0.05, 0.4, (1, 1, 16)).astype(np.float32))
    x = net.add("PRELU", [net.conv(x, 16, activation=0), slope], net.tensor(*net.shape(x)))
    x = net.unary("HARD_SWISH", x, tflite.HardSwishOptions())
    axes = net.constant(np.array([1, 2], np.int32))
    x = net.add("MEAN", [x, axes], net.tensor(1, 16), tflite.ReducerOptions())
    x = net.connected(x, 10)
    return net.bytes(net.unary("SOFTMAX", x, tflite.SoftmaxOptions(beta=1.0)), x)


def landmarks(weights: str = "float32", seed: int = 6) -> bytes:
    """What detectors are made of: padded channels, pools, resizing, heads that are reshaped and joined."""
    net = FloatFile(seed, weights)
    x = net.conv(net.input(1, 24, 20, 3, name="image"), 8, stride=2)
    pooled = net.add(
        "MAX_POOL_2D",
        [x],
        net.tensor(1, 6, 5, 8),
        tflite.Pool2DOptions(padding=Padding.SAME, stride_w=2, stride_h=2, filter_w=2, filter_h=2),
    )
    pads = net.constant(np.array([[0, 0], [0, 0], [0, 0], [0, 4]], np.int32))
    wide = net.add("PAD", [pooled, pads], net.tensor(1, 6, 5, 12), tflite.PadOptions())
    x2 = net.conv(net.depthwise(x, stride=2, activation=0), 12, kernel=1, activation=0)
    x2 = net.add("ADD", [wide, x2], net.tensor(1, 6, 5, 12), tflite.AddOptions(fused_activation=1))
    size = net.constant(np.array([12, 10], np.int32))
    up = net.add("RESIZE_BILINEAR", [x2, size], net.tensor(1, 12, 10, 12), tflite.ResizeBilinearOptions())
    up = net.conv(up, 8, kernel=1)
    x = net.add("ADD", [x, up], net.tensor(1, 12, 10, 8), tflite.AddOptions())
    heads = []
    for at, anchors in ((x, 2), (x2, 6)):
        head = net.conv(at, anchors * 4, kernel=1, activation=0)
        count = int(np.prod(net.shape(head))) // 4
        shape = net.constant(np.array([1, count, 4], np.int32))
        heads.append(net.add("RESHAPE", [head, shape], net.tensor(1, count, 4), tflite.ReshapeOptions()))
    total = sum(net.shape(h)[1] for h in heads)
    boxes = net.add("CONCATENATION", heads, net.tensor(1, total, 4), tflite.ConcatenationOptions(axis=1))
    return net.bytes(boxes)
