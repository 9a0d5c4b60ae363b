# SPDX-License-Identifier: Apache-2.0
"""Random files as converters write them: uint8 throughout, int8 with a scale for each channel or one for all, with borders of uint8 or
float32. Scales and zero points are random, those of the ends among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from net_file import NetFile

from pillion.schemas import tflite
from pillion.schemas.flatbuffer import Table
from pillion.schemas.tflite import ElementType, Padding

LARGEST = 12_000
"""How many elements a tensor may have before it grows no more."""
BORDERS = ("uint8", "int8 in uint8", "int8", "int8 in float32")
WEIGHTED = {
    "CONV_2D": (0, 1),
    "DEPTHWISE_CONV_2D": (0, 1),
    "FULLY_CONNECTED": (0, 1),
    "TRANSPOSE_CONV": (2, 1),
}
"""Where an operator has its image and its weights; the bias comes last."""


class ExportedNet(NetFile):
    """A file of one number format, whose layers draw their parameters."""

    def __init__(self, seed: int, dtype: str) -> None:
        super().__init__(seed, dtype)
        self.lower = 128 if dtype == "int8" else 0
        self.by_channel = dtype == "int8" and bool(self.rng.integers(2))

    def zero(self) -> int:
        return int(self.rng.choice([0, 255, 128, self.rng.integers(256)])) - self.lower

    def scale(self, low: float = 0.01, high: float = 0.12) -> float:
        return float(np.float32(self.rng.uniform(low, high)))

    def held(self, shape: tuple[int, ...], scale: float, zero: int, **fields: Any) -> int:
        """A constant of any numbers."""
        data = (self.rng.integers(0, 256, shape) - self.lower).astype(self.dtype)
        quant = tflite.Quantization(scale=[scale], zero_point=[zero])
        return self.constant(data, type=ElementType[self.dtype.upper()], quantization=quant, **fields)

    def weights(self, shape: tuple[int, ...], axis: int) -> int:
        """Weights around zero; the axis is that of output channels."""
        near = np.rint(self.rng.normal(0, 45, shape))
        if self.dtype == "uint8":
            zero = int(self.rng.choice([128, self.rng.integers(90, 165)]))
            data = np.clip(near + zero, 0, 255).astype(np.uint8)
            quant = tflite.Quantization(scale=[self.scale(0.003, 0.01)], zero_point=[zero])
            return self.constant(data, type=ElementType.UINT8, quantization=quant)
        count = shape[axis] if self.by_channel else 1
        scales = [self.scale(0.002, 0.01) for _ in range(count)]
        quant = tflite.Quantization(scale=scales, zero_point=[0] * count, quantized_dimension=axis)
        return self.constant(np.clip(near, -127, 127).astype(np.int8), quantization=quant)

    def bias(self, count: int) -> int:
        return self.constant(self.rng.integers(-2000, 2000, count).astype(np.int32))

    def result(self, *shape: int, like: int | None = None) -> int:
        """A tensor with the scale of another one, or any."""
        if like is None:
            return self.tensor(*shape, scale=self.scale(), zero=self.zero())
        quant = self.graph.tensors[like].quantization
        return self.tensor(*shape, scale=quant.scale[0], zero=quant.zero_point[0])

    def add(self, code: str, inputs: list[int], y: int, options: Table | None = None) -> int:
        """An operator; a bias has the scale of the sums."""
        if code in WEIGHTED:
            image, weights = (self.graph.tensors[inputs[place]].quantization for place in WEIGHTED[code])
            scales = [float(np.float32(image.scale[0]) * np.float32(s)) for s in weights.scale]
            bias = self.graph.tensors[inputs[-1]]
            bias.quantization = tflite.Quantization(scale=scales, zero_point=[0] * len(scales))
        return super().add(code, inputs, y, options)

    def activation(self) -> int:
        return int(self.rng.choice([0, 0, 1, 3]))

    def windows(
        self, x: int, kernel: tuple[int, int], stride: int, dilation: int, padding: Padding
    ) -> tuple[int, ...]:
        """Batch, rows and columns of what a window makes; nothing where it does not fit."""
        n, *image, _ = self.shape(x)
        reach = [0 if padding == Padding.SAME else dilation * (k - 1) for k in kernel]
        sizes = [-(-(side - less) // stride) for side, less in zip(image, reach, strict=True)]
        return (n, *sizes) if min(sizes) > 0 else ()

    def pick(self, *items: Any) -> Any:
        return items[int(self.rng.integers(len(items)))]


Layer: TypeAlias = Callable[[ExportedNet, int], int | None]
"""Puts operators behind a tensor, and gives the last result; nothing where they do not fit."""


def conv(net: ExportedNet, x: int) -> int | None:
    kernel = (net.pick(1, 2, 3), net.pick(1, 2, 3))
    stride, padding, out = net.pick(1, 2), net.pick(*Padding), int(net.rng.integers(1, 18))
    dilation = net.pick(1, 2) if stride == 1 else 1
    shape = net.windows(x, kernel, stride, dilation, padding)
    options = tflite.Conv2DOptions(padding=padding, stride_h=stride, stride_w=stride)
    options.dilation_h = options.dilation_w = dilation
    options.fused_activation = net.activation()
    operands = [x, net.weights((out, *kernel, net.shape(x)[3]), 0), net.bias(out)]
    return net.add("CONV_2D", operands, net.result(*shape, out), options) if shape else None


def pointwise(net: ExportedNet, x: int) -> int:
    """A convolution that keeps the shape."""
    channels = net.shape(x)[3]
    options = tflite.Conv2DOptions(padding=Padding.SAME, stride_h=1, stride_w=1)
    operands = [x, net.weights((channels, 1, 1, channels), 0), net.bias(channels)]
    return net.add("CONV_2D", operands, net.result(*net.shape(x)), options)


def depthwise(net: ExportedNet, x: int) -> int | None:
    kernel = (net.pick(1, 3, 5), net.pick(1, 3, 5))
    stride, padding, multiplier = net.pick(1, 2), net.pick(*Padding), net.pick(1, 1, 1, 2)
    shape, out = net.windows(x, kernel, stride, 1, padding), net.shape(x)[3] * multiplier
    if not shape or out > 40:
        return None
    options = tflite.DepthwiseConv2DOptions(padding=padding, stride_h=stride, stride_w=stride)
    options.depth_multiplier, options.fused_activation = multiplier, net.activation()
    operands = [x, net.weights((1, *kernel, out), 3), net.bias(out)]
    return net.add("DEPTHWISE_CONV_2D", operands, net.result(*shape, out), options)


def transposed(net: ExportedNet, x: int) -> int | None:
    n, h, w, c = net.shape(x)
    out = int(net.rng.integers(1, 9))
    shape = (n, 2 * h, 2 * w, out)
    options = tflite.TransposeConvOptions(padding=Padding.SAME, stride_h=2, stride_w=2)
    operands = [net.constant(np.array(shape, np.int32)), net.weights((out, 3, 2, c), 0), x, net.bias(out)]
    return net.add("TRANSPOSE_CONV", operands, net.result(*shape), options) if h * w <= 200 else None


def pool(net: ExportedNet, x: int) -> int | None:
    kernel, stride, padding = (net.pick(1, 2, 3), net.pick(1, 2, 3)), net.pick(1, 2), net.pick(*Padding)
    shape = net.windows(x, kernel, stride, 1, padding)
    options = tflite.Pool2DOptions(padding=padding, stride_h=stride, stride_w=stride)
    options.filter_h, options.filter_w, options.fused_activation = *kernel, net.activation()
    code = net.pick("AVERAGE_POOL_2D", "MAX_POOL_2D")
    return net.add(code, [x], net.result(*shape, net.shape(x)[3], like=x), options) if shape else None


def resize(net: ExportedNet, x: int) -> int | None:
    n, h, w, c = net.shape(x)
    size = (net.pick(2 * h, h + 3, max(h // 2, 1)), net.pick(2 * w, 2 * w + 1, w))
    mode: dict[str, Any] = net.pick({}, {"align_corners": True}, {"half_pixel_centers": True})
    code, options = net.pick(
        ("RESIZE_BILINEAR", tflite.ResizeBilinearOptions),
        ("RESIZE_NEAREST_NEIGHBOR", tflite.ResizeNearestNeighborOptions),
    )
    asked = net.constant(np.array(size, np.int32))
    y = net.result(n, *size, c, like=x)
    return net.add(code, [x, asked], y, options(**mode)) if size[0] * size[1] <= 400 else None


def arithmetic(net: ExportedNet, x: int) -> int:
    code, options = net.pick(
        ("ADD", tflite.AddOptions), ("SUB", tflite.SubOptions), ("MUL", tflite.MulOptions)
    )
    made = options(fused_activation=net.activation())
    if code != "MUL":
        made.pot_scale_int16 = False
    channels = net.shape(x)[3]
    other = pointwise(net, x) if net.pick(True, False) else net.held((channels,), net.scale(), net.zero())
    return net.add(code, net.pick([x, other], [other, x]), net.result(*net.shape(x)), made)


def gated(net: ExportedNet, x: int) -> int:
    """What is multiplied by its own sigmoid."""
    gate = net.add("LOGISTIC", [x], net.tensor(*net.shape(x), scale=1 / 256, zero=-net.lower))
    return net.add("MUL", [x, gate], net.result(*net.shape(x)), tflite.MulOptions())


def excited(net: ExportedNet, x: int) -> int:
    """Channels that are multiplied by a function of their means."""
    n, _, _, c = net.shape(x)
    axes = net.constant(np.array([1, 2], np.int32))
    mean = net.add("MEAN", [x, axes], net.result(n, 1, 1, c), tflite.ReducerOptions(keep_dims=True))
    gate = net.tensor(n, 1, 1, c, scale=1 / 256, zero=-net.lower)
    net.add("LOGISTIC", [pointwise(net, mean)], gate)
    return net.add("MUL", [x, gate], net.result(*net.shape(x)), tflite.MulOptions())


def function(net: ExportedNet, x: int) -> int:
    code, options = net.pick(
        ("HARD_SWISH", tflite.HardSwishOptions()),
        ("LEAKY_RELU", tflite.LeakyReluOptions(alpha=0.1)),
        ("RELU", None),
        ("RELU6", None),
    )
    return net.add(code, [x], net.result(*net.shape(x)), options)


def prelu(net: ExportedNet, x: int) -> int:
    slopes = net.held((1, 1, net.shape(x)[3]), 0.004, net.zero())
    return net.add("PRELU", [x, slopes], net.result(*net.shape(x)))


def pad(net: ExportedNet, x: int) -> int:
    sides = [[0, 0], *net.rng.integers(0, 3, (2, 2)).tolist(), [0, net.pick(0, 2)]]
    sizes = [side + sum(more) for side, more in zip(net.shape(x), sides, strict=True)]
    y, given = net.result(*sizes, like=x), net.constant(np.array(sides, np.int32))
    if net.pick(True, False):
        return net.add("PAD", [x, given], y, tflite.PadOptions())
    quant = net.graph.tensors[x].quantization
    level = net.held((1,), quant.scale[0], quant.zero_point[0])
    return net.add("PADV2", [x, given, level], y, tflite.PadV2Options())


def concat(net: ExportedNet, x: int) -> int:
    """Of several scales in uint8; converters bring those of int8 to one first."""
    *image, c = net.shape(x)
    y, parts = net.result(*image, 3 * c), [x, pointwise(net, x), function(net, x)]
    if net.dtype == "int8":
        quant = net.graph.tensors[y].quantization
        parts = [net.quantized(part, "int8", quant.scale[0], quant.zero_point[0]) for part in parts]
    return net.add("CONCATENATION", parts, y, tflite.ConcatenationOptions(axis=net.pick(3, -1)))


def shuffle(net: ExportedNet, x: int) -> int | None:
    """Channels in two groups, which change places; a shape leaves one size open."""
    *image, c = net.shape(x)
    asked = net.constant(np.array([*image, 2, -1], np.int32))
    halves = net.result(*image, 2, c // 2, like=x)
    net.add("RESHAPE", [x, asked], halves, tflite.ReshapeOptions(new_shape=[*image, 2, -1]))
    turned, order = net.result(*image, c // 2, 2, like=x), net.constant(np.array([0, 1, 2, 4, 3], np.int32))
    net.add("TRANSPOSE", [halves, order], turned, tflite.TransposeOptions())
    flat = net.constant(np.array(net.shape(x), np.int32))
    return net.add("RESHAPE", [turned, flat], net.result(*net.shape(x), like=x), tflite.ReshapeOptions())


def every_other_row(net: ExportedNet, x: int) -> int | None:
    n, h, w, c = net.shape(x)
    lists = ([0, 1, 0, 0], [0, 0, -1, 0], [1, 2, 1, 1])
    options = tflite.StridedSliceOptions(begin_mask=9, end_mask=11)
    operands = [x, *(net.constant(np.array(one, np.int32)) for one in lists)]
    return net.add("STRIDED_SLICE", operands, net.result(n, h // 2, w - 1, c, like=x), options)


def requantized(net: ExportedNet, x: int) -> int:
    return net.quantized(x, net.dtype, net.scale(), net.zero())


LAYERS: tuple[Layer, ...] = (
    *(conv, conv, depthwise, depthwise, transposed, pool, pool, resize, arithmetic, arithmetic, gated),
    *(excited, function, prelu, pad, concat, shuffle, every_other_row, requantized),
)
GROWING = (transposed, resize, pad, concat)


def classifier(net: ExportedNet, x: int) -> int:
    """A shape that leaves one size open, a layer, a softmax."""
    n, *rest = net.shape(x)
    count, out = int(np.prod(rest)), int(net.rng.integers(2, 12))
    asked = net.constant(np.array([-1, count], np.int32))
    flat = net.add("RESHAPE", [x, asked], net.result(n, count, like=x), tflite.ReshapeOptions())
    options = tflite.FullyConnectedOptions()
    y = net.add(
        "FULLY_CONNECTED", [flat, net.weights((out, count), 0), net.bias(out)], net.result(n, out), options
    )
    scores = net.tensor(n, out, scale=1 / 256, zero=-net.lower)
    return net.add("SOFTMAX", [y], scores, tflite.SoftmaxOptions(beta=1.0))


def fits(net: ExportedNet, layer: Layer, x: int) -> bool:
    """Whether a layer may come next."""
    _, h, w, c = net.shape(x)
    if layer is shuffle:
        return c % 2 == 0
    if layer is every_other_row:
        return min(h, w) >= 4
    return layer not in GROWING or h * w * c <= LARGEST


def exported(seed: int) -> bytes:
    """A file of 4 to 11 layers, with an output here and there; the seed says the borders, too."""
    borders = BORDERS[seed % len(BORDERS)]
    net = ExportedNet(seed, "uint8" if borders == "uint8" else "int8")
    shape = (1, int(net.rng.integers(6, 20)), int(net.rng.integers(6, 20)), net.pick(1, 3, 4))
    if borders.startswith("int8 in"):
        outer = net.input(*shape, dtype=borders.split()[-1], scale=0.0078125)
        x = net.quantized(outer, "int8", 0.0078125, 0)
    else:
        x = net.input(*shape, scale=net.scale(), zero=net.zero())
    outputs = []
    for _ in range(int(net.rng.integers(4, 12))):
        layer = net.pick(*LAYERS)
        x = next((y for y in [layer(net, x) if fits(net, layer, x) else None] if y is not None), x)
        if net.rng.integers(6) == 0:
            outputs.append(x)
    outputs.append(classifier(net, x) if net.pick(True, False) else x)
    return net.bytes(*(outer_result(net, y, borders) for y in dict.fromkeys(outputs)))


def outer_result(net: ExportedNet, y: int, borders: str) -> int:
    """What a file gives of a tensor."""
    if borders == "int8 in uint8":
        return net.quantized(y, "uint8", net.scale(), int(net.rng.integers(256)))
    if borders == "int8 in float32":
        real = net.tensor(*net.shape(y), dtype="float32")
        return net.add("DEQUANTIZE", [y], real, tflite.DequantizeOptions())
    return y
