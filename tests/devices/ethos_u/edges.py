# SPDX-License-Identifier: Apache-2.0
"""Ops at the limits of Ethos-U's rules and one past them: a row for every rule, by its name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from single_ops import SOFTMAX, Maker, bias, made, value

from pillion.devices.ethos_u.rules import SAME, SUPPORTED
from pillion.devices.op_groups import PAIRS, POOLS, RESIZES, WEIGHTED
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, Shape, TensorType, Value, constant_value
from pillion.ops import (
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
    Transpose,
    TransposeConv2d,
)

Q = PerTensor(0.1, 3)


def stretched(kind: type[Op], size: tuple[int, int], **mode: bool) -> Op:
    return made(kind, Q, x=value("x", (1, 2, 2, 3), Q), size=size, **mode)


def conv(stride: int = 1, window: tuple[int, int] = (3, 3), border: int = 0, kind: type[Op] = Conv2d) -> Op:
    maker = Maker(0)
    shape = (4, *window, 2) if kind is Conv2d else (1, *window, 2)
    count = shape[0] if kind is Conv2d else 2
    x = value("x", (1, 19, 19, 2), Q)
    held = {
        "weights": maker.weights(shape),
        "bias": bias(count),
        "stride": (stride, 1),
        "padding": (border,) * 4,
    }
    return made(kind, Q, x=x, **held)


def strided(
    kind: type[Op],
    image: tuple[int, int],
    window: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int] = (1, 1),
    padding: tuple[int, ...] = (0, 0, 0, 0),
) -> Op:
    held = {"weights": Maker(0).weights((3 if kind is Conv2d else 1, *window, 3)), "bias": bias(3)}
    moves = {"stride": stride, "dilation": dilation, "padding": padding}
    return made(kind, Q, x=value("x", (1, *image, 3), Q), **held, **moves)


def pool(kind: type[Op], window: tuple[int, int]) -> Op:
    return made(kind, Q, x=value("x", (1, max(window[0], 2), window[1] + 1, 1), Q), kernel=window)


def transposed(stride: tuple[int, int], window: tuple[int, int] = (3, 3), more: int = 0) -> Op:
    x, weights = value("x", (1, 4, 4, 2), Q), Maker(0).weights((4, *window, 2))
    return made(
        TransposeConv2d, Q, x=x, weights=weights, bias=bias(4), stride=stride, output_padding=(more, 0)
    )


def resize(kind: type[Op], factor: int, other: int, half: bool = False, images: int = 1) -> Op:
    x = value("x", (images, 3, 5, 2), Q)
    return made(kind, Q, x=x, size=(3 * factor, 5 * other), half_pixel=half, align_corners=False)


def mean(shape: tuple[int, ...], *axes: int) -> Op:
    return made(Mean, Q, x=value("x", shape, Q), axes=axes, keepdims=True)


def steps(*step: int) -> Op:
    return Slice(
        x=value("x", (5,) * len(step), Q),
        y=value("y", (2,) * len(step), Q),
        begin=(0,) * len(step),
        step=step,
    )


def average(side: int, border: tuple[int, ...], stride: int = 1) -> Op:
    x = value("x", (1, 20, 21, 2), Q)
    return made(AvgPool2d, Q, x=x, kernel=(side, side), stride=(stride, stride), padding=border)


def summed(last: int, kind: type[Op] = Conv2d) -> Op:
    """A result channel whose weights have the largest sum of magnitudes but for the last."""
    shape = {DepthwiseConv2d: (1, 256, 256, 1), Linear: (1, 65536)}.get(kind, (1, 1, 1, 65536))
    weights = np.full(shape, 127, np.int8)
    weights.flat[-1] = last
    of_x = (1, 256, 256, 1) if kind is DepthwiseConv2d else (1, 65536) if kind is Linear else shape
    held = constant_value("w", weights, PerTensor(0.01))
    return made(kind, Q, x=value("x", of_x, Q), weights=held, bias=bias(1))


def rows(*shape: int) -> Op:
    return made(Softmax, SOFTMAX, x=value("x", shape, Q))


def wide(kind: type[Op], columns: int, half: bool = False) -> Op:
    """Two columns that become so many."""
    x = value("x", (1, 1, 2, 1), Q)
    return made(kind, Q, x=x, size=(1, columns), half_pixel=half, align_corners=False)


def moved(shape: Shape, *order: int) -> Op:
    return made(Transpose, Q, x=value("x", shape, Q), order=order)


def reduced(kind: type[Op], shape: Shape, *axes: int, keepdims: bool = True) -> Op:
    return made(kind, Q, x=value("x", shape, Q), axes=axes, keepdims=keepdims)


def table(function: Function, quant: PerTensor = Q, of: PerTensor = Q) -> Op:
    return made(Lut, quant, x=value("x", (1, 4, 5, 3), of), function=function)


def repeated(kind: type[Op], shape: Shape, other: Shape) -> Op:
    return made(kind, Q, a=value("a", shape, Q), b=value("b", other, Q))


def sized(kind: type[Op], shape: Shape) -> Op:  # a row for each kind
    """An op of a kind that reads a tensor of a shape."""
    x, weights, channels = value("x", shape, Q), Maker(0).weights, shape[-1]
    if kind is DepthwiseConv2d:
        return made(kind, Q, x=x, weights=weights((1, 1, 1, channels)), bias=bias(channels))
    if kind in WEIGHTED:
        held = (2, channels) if kind is Linear else (2, 1, 1, channels)
        return made(kind, Q, x=x, weights=weights(held), bias=bias(2))
    if kind is BatchMatmul:
        return made(kind, Q, a=value("a", shape[1:], Q), b=value("b", (shape[1], channels, 2), Q))
    if kind in PAIRS:
        return repeated(kind, shape, shape)
    if kind in (Slice, Pad):
        fields = {
            name: (0,) * len(shape) for name in ("begin", "before", "after") if name in kind.__annotations__
        }
        steps = {"step": (1,) * len(shape), "y": value("y", shape, Q)} if kind is Slice else {"value": 3}
        return Slice(x=x, **fields, **steps) if kind is Slice else made(kind, Q, x=x, **fields, **steps)
    if kind is Concat:
        return made(kind, Q, xs=(x, value("z", shape, Q)), axis=1)
    if kind is Reshape:
        return Reshape(x=x, y=value("y", shape[::-1], Q))
    return made(kind, SOFTMAX if kind is Softmax else Q, x=x, **_fields(kind, shape))


def _fields(kind: type[Op], shape: Shape) -> dict[str, object]:
    """The attributes of what reads one tensor."""
    if kind in (Mean, ReduceSum, ReduceMax, ReduceMin):
        return {
            "axes": (3 if shape[3] < 4096 else 1,) if kind in (Mean, ReduceSum) else (1, 2, 3),
            "keepdims": True,
        }
    if kind in POOLS:
        return {"kernel": (1, 1)}
    if kind in RESIZES:
        return {"size": shape[1:3]}
    if kind is Transpose:
        return {"order": (0, 2, 1, 3)}
    if kind is Prelu:
        return {"slope": Maker(0).weights((shape[3],))}
    return {Lut: {"function": Function.ABS}, Clamp: {"low": -5, "high": 5}}.get(kind, {})


def retyped(op: Op, dtype: DType) -> Op:
    """An op with tensors of another type."""

    def of(v: Value) -> Value:
        quant = None if dtype in (DType.FLOAT32, DType.BOOL) else PerTensor(v.scale, max(v.zero_point, 0))
        return v if v.is_constant else Value(v.name, TensorType(v.shape, dtype, quant))

    fields = {name: getattr(op, name) for name in op.__dataclass_fields__}
    changed = {
        name: of(v) if isinstance(v, Value) else tuple(map(of, v))
        for name, v in fields.items()
        if isinstance(v, Value) or (isinstance(v, tuple) and v and isinstance(v[0], Value))
    }
    return replace(op, **changed)


EDGES: dict[str, tuple[Op, Op]] = {
    "mean.axes of rows": (mean((1, 4096, 2, 3), 1), mean((1, 4097, 2, 3), 1)),
    "mean.axes of columns": (mean((1, 3, 4096, 2), 2), mean((1, 3, 4097, 2), 2)),
    "mean.axes of channels": (mean((1, 1, 1, 4096), 3), mean((1, 1, 1, 4097), 3)),
    "depthwise_conv2d.weights": (summed(127, DepthwiseConv2d), summed(-128, DepthwiseConv2d)),
    "transpose_conv2d.weights": (summed(127, TransposeConv2d), summed(-128, TransposeConv2d)),
    "linear.weights": (summed(127, Linear), summed(-128, Linear)),
    "resize_bilinear.images": (resize(ResizeBilinear, 2, 2), resize(ResizeBilinear, 2, 2, images=2)),
    "transpose.extents": (moved((2, 128, 256, 256), 1, 0, 2, 3), moved((2, 128, 256, 257), 1, 0, 2, 3)),
    "transpose.extents of one image": (
        moved((1, 300, 300, 2), 0, 3, 2, 1),
        moved((1, 300, 300, 2), 1, 0, 2, 3),
    ),
    "transpose.extents of one axis": (
        moved((1, 65536, 1, 1), 1, 0, 2, 3),
        moved((1, 65536, 2, 1), 1, 0, 2, 3),
    ),
    "softmax.rows": (rows(1, 256, 256, 3), rows(1, 257, 256, 3)),
    "avg_pool2d.padding": (average(8, (3, 3, 4, 4)), average(9, (4, 4, 4, 4))),
    "conv2d.stride of one result": (conv(9, window=(15, 3)), conv(4, window=(4, 3), border=1)),
    "conv2d.weights": (summed(127), summed(-128)),
    "conv2d.stride": (conv(4), conv(4, border=1)),
    "depthwise_conv2d.stride": (conv(3, kind=DepthwiseConv2d), conv(4, kind=DepthwiseConv2d)),
    "transpose_conv2d.stride": (transposed((2, 2)), transposed((1, 2))),
    "transpose_conv2d.stride of the kernel": (transposed((2, 2), (2, 2)), transposed((2, 2), (1, 1))),
    "transpose_conv2d.output_padding": (transposed((2, 2)), transposed((2, 2), more=1)),
    "max_pool2d.kernel": (pool(MaxPool2d, (256, 256)), pool(MaxPool2d, (256, 257))),
    "max_pool2d.kernel's height": (pool(MaxPool2d, (256, 1)), pool(MaxPool2d, (257, 1))),
    "avg_pool2d.kernel": (pool(AvgPool2d, (256, 256)), pool(AvgPool2d, (257, 1))),
    "resize_nearest.factor": (resize(ResizeNearest, 8, 8), resize(ResizeNearest, 16, 16)),
    "resize_nearest.factor of both": (resize(ResizeNearest, 2, 2), resize(ResizeNearest, 2, 4)),
    "resize_bilinear.factor": (resize(ResizeBilinear, 4, 4), resize(ResizeBilinear, 3, 3)),
    "resize_bilinear.factor with half pixels": (
        resize(ResizeBilinear, 2, 2, True),
        resize(ResizeBilinear, 4, 4, True),
    ),
    "resize_nearest.images": (resize(ResizeNearest, 2, 2), resize(ResizeNearest, 2, 2, images=2)),
    "mean.axes": (mean((1, 1, 5, 3), 3), mean((1, 7, 5, 3), 3)),
    "mean.axes of images": (mean((1, 7, 5, 3), 1, 2), mean((2, 7, 5, 3), 1, 2)),
    "slice.step": (steps(1, 2, 2, 1), steps(1, 1, 1, 2)),
    "slice.step of images": (steps(2, 1), steps(2, 1, 1, 1)),
}


EDGES_U85: dict[str, tuple[Op, Op]] = {
    "transpose_conv2d.stride": (transposed((3, 3)), transposed((4, 4))),
    "transpose_conv2d.stride of one axis": (transposed((1, 3)), transposed((3, 3), (3, 1))),
    "transpose_conv2d.output_padding": (transposed((2, 2)), transposed((2, 2), more=1)),
    "resize_nearest.factor": (wide(ResizeNearest, 2049, True), wide(ResizeNearest, 2050, True)),
    "resize_bilinear.factor": (wide(ResizeBilinear, 4096), wide(ResizeBilinear, 8192)),
    "resize_bilinear.factor of three": (resize(ResizeBilinear, 4, 2), resize(ResizeBilinear, 2, 3)),
    "max_pool2d.kernel": (pool(MaxPool2d, (256, 256)), pool(MaxPool2d, (256, 257))),
    "avg_pool2d.kernel": (pool(AvgPool2d, (256, 256)), pool(AvgPool2d, (257, 1))),
    "avg_pool2d.padding": (average(8, (3, 3, 4, 4)), average(9, (4, 4, 4, 4))),
    "mean.axes": (mean((1, 4096, 2, 3), 1), mean((1, 4097, 2, 3), 1)),
    "softmax.rows": (rows(1, 256, 256, 3), rows(1, 257, 256, 3)),
    "slice.step": (steps(1, 2, 2, 1), steps(1, 1, 1, 2)),
    "conv2d.weights": (summed(127), summed(-128)),
    "depthwise_conv2d.weights": (summed(127, DepthwiseConv2d), summed(-128, DepthwiseConv2d)),
    "transpose_conv2d.weights": (summed(127, TransposeConv2d), summed(-128, TransposeConv2d)),
    "linear.weights": (summed(127, Linear), summed(-128, Linear)),
    "mean.axes of channels": (mean((1, 1, 5, 3), 3), mean((1, 7, 5, 3), 3)),
    "mean.axes of images": (mean((1, 7, 5, 3), 1, 2), mean((2, 7, 5, 3), 1, 2)),
}

WRONG: dict[str, tuple[Op, Op]] = {
    **{
        f"{kind.kind}.broadcast": (
            repeated(kind, (2, 3, 4, 5), (2, 1, 4, 5)),
            repeated(kind, (2, 3, 4, 5, 6), (3, 1, 5, 6)),
        )
        for kind in PAIRS
    },
    "reduce_max.axes": (
        reduced(ReduceMax, (1, 1, 5, 7), 2, 3),
        reduced(ReduceMax, (2, 1, 3, 5), 1, keepdims=False),
    ),
    "reduce_min.axes": (
        reduced(ReduceMin, (3, 5, 7), 0, 1),
        reduced(ReduceMin, (3, 5, 7), 0, 2, keepdims=False),
    ),
    "reduce_sum.axes": (reduced(ReduceSum, (2, 5, 7), 1), reduced(ReduceSum, (2, 5, 7), 0, 1)),
    "lut.function": (
        table(Function.HARDSWISH),
        table(Function.GELU, PerTensor(0.3, -128), PerTensor(0.05, -128)),
    ),
}
"""What Vela takes, and its streams compute wrongly."""
WRONG_U85: dict[str, tuple[Op, Op]] = {
    "conv2d.stride": (
        strided(Conv2d, (16, 9), (2, 1), (1, 4)),
        strided(Conv2d, (16, 7), (2, 1), (1, 4), (1, 3), (0, 0, 0, 2)),
    ),
    "depthwise_conv2d.stride": (
        strided(DepthwiseConv2d, (5, 7), (2, 1), (5, 4)),
        strided(DepthwiseConv2d, (5, 5), (2, 1), (5, 4), (1, 1), (0, 1, 0, 2)),
    ),
    "resize_nearest.pixels": (stretched(ResizeNearest, (4, 6)), stretched(ResizeNearest, (5, 7))),
    "resize_bilinear.factor with half pixels": (
        stretched(ResizeBilinear, (2, 1024), half_pixel=True),
        stretched(ResizeBilinear, (2, 2048), half_pixel=True),
    ),
}
"""What Vela takes for U85 alone, and its streams compute wrongly."""

BEYOND: dict[str, tuple[Op, Op]] = {
    "lut.output": (table(Function.TANH, PerTensor(1 / 128)), table(Function.TANH)),
    "lut.function of GELU": (table(Function.HARDSWISH), table(Function.GELU)),
}
"""What Vela takes and the rules refuse: TFLite has no such thing, or only some are computed rightly."""


def _shaped(kind: type[Op], length: int) -> Op:
    """One axis of a length, and no other rule in the way."""
    first = kind in (Mean, ReduceSum, Softmax, BatchMatmul)
    return sized(kind, (1, 1, length, 2) if first else (1, 1, 1, length))


SHAPES = {kind: (_shaped(kind, 65536), _shaped(kind, 65537)) for kind in SUPPORTED}
LONGER = set(SUPPORTED) - {*WEIGHTED, *POOLS, Softmax, Transpose}
"""Of which Vela takes 65,537 elements along an axis, too, by cutting the axis: the rules do not."""
LONGER_U85 = LONGER | {Transpose}

TYPES = {kind: sized(kind, (1, 1, 5, 2)) for kind in SUPPORTED}
OTHER_TYPES = {
    **{kind: {"bool"} for kind in (ReduceMax, ReduceMin, Minimum, Maximum)},
    **{kind: {"int16", "uint8", "bool"} for kind in (Concat, Slice, Pad, Transpose, Reshape)},
    Requantize: {"uint8"},
}

_PLAIN = {"weights": Maker(0).weights((4, 3, 3, 2)), "bias": bias(4)}


def _another_scale(kind: type[Op]) -> Op:
    op = sized(kind, (1, 1, 5, 2))
    y = op.results[0]
    return replace(op, y=value("y", y.shape, PerTensor(0.2, 3)))


def _computed(kind: type[Op]) -> Op:
    op = TYPES[kind]
    return replace(op, bias=Value("b", op.bias.type))  # type: ignore[attr-defined]  # of a kind with a bias


def _shifted(kind: type[Op]) -> Op:
    op = TYPES[kind]
    held = constant_value("w", op.weights.constant, PerTensor(0.01, 1))  # type: ignore[attr-defined]  # of a kind with weights
    return replace(op, weights=held)


UNWRITTEN: dict[str, Op] = {
    **{f"{kind.kind}.parameters": _another_scale(kind) for kind in SAME},
    **{f"{kind.kind}.constants": _computed(kind) for kind in WEIGHTED},
    **{f"{kind.kind}.zero_point": _shifted(kind) for kind in WEIGHTED},
    "transpose_conv2d.dilation": made(
        TransposeConv2d, Q, x=value("x", (1, 4, 4, 2), Q), dilation=(2, 1), **_PLAIN
    ),
    "lut.table": table(Function.SILU),
    "softmax.output": made(Softmax, PerTensor(1 / 512, -128), x=value("x", (1, 4), Q)),
}
"""What no TFLite file says: it cannot reach Vela."""
