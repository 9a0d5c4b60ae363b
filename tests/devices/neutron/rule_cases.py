# SPDX-License-Identifier: Apache-2.0
"""For every rule of the NPU an op that it accepts and one that it alone refuses; limits at their edge and one past it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from pillion.ir.op import Op
from pillion.ir.types import DType, PerChannel, PerTensor, Quant, Shape, TensorType, Value, constant_value
from pillion.ops import (
    Add,
    AvgPool2d,
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
    Reshape,
    Slice,
    Softmax,
    Sub,
    Transpose,
)
from pillion.ops.matmul import BatchMatmul
from pillion.ops.prelu import Prelu
from pillion.ops.reduce import ReduceMax, ReduceMin, ReduceSum
from pillion.ops.resize import ResizeBilinear, ResizeNearest
from pillion.ops.transpose_conv import TransposeConv2d

IMAGE: Shape = (1, 7, 5, 3)
Q = PerTensor(0.1, 3)
OTHER = PerTensor(0.2, -5)
SYMMETRIC = PerTensor(0.1)

Pair = tuple[Op, Op]
"""Accepted and refused."""


def value(name: str, shape: Shape, quant: Quant | None = Q, dtype: DType = DType.INT8) -> Value:
    return Value(name, TensorType(shape, dtype, quant))


def weights(shape: Shape, quant: Quant | None = None) -> Value:
    return constant_value("w", np.ones(shape, np.int8), quant or PerTensor(0.01))


def bias(count: int) -> Value:
    return constant_value("b", np.zeros(count, np.int32), PerTensor(0.001))


def made(cls: type[Op], quant: Quant = Q, **fields: object) -> Op:
    """The op with a result of the inferred shape, checked."""
    op = cls(y=value("y", ()), **fields)  # type: ignore[call-arg]  # the fields of this op
    if not isinstance(op, (Reshape, Slice)):
        op = dataclasses.replace(op, y=value("y", op.infer().shape, quant))  # type: ignore[call-arg]  # every op has a y
    op.check()
    return op


def conv(image: Shape = IMAGE, kernel: tuple[int, int] = (3, 2), groups: int = 1, **fields: object) -> Op:
    out = 4 if groups == 1 else groups
    held = weights((out, *kernel, image[3] // groups))
    return made(Conv2d, OTHER, x=value("x", image), weights=held, bias=bias(out), groups=groups, **fields)


def depthwise(
    image: Shape = IMAGE, kernel: tuple[int, int] = (3, 2), multiplier: int = 1, **fields: object
) -> Op:
    out = image[3] * multiplier
    held = weights((1, *kernel, out))
    return made(DepthwiseConv2d, OTHER, x=value("x", image), weights=held, bias=bias(out), **fields)


def linear(quant: Quant | None = None) -> Op:
    return made(Linear, OTHER, x=value("x", (2, 7)), weights=weights((5, 7), quant), bias=bias(5))


def pair(cls: type[Op], a: Shape = (2, 3, 5), b: Shape = (2, 1, 5), quant: Quant = Q) -> Op:
    return made(cls, quant, a=value("a", a), b=value("b", b))


def pool(cls: type[Op], image: Shape = IMAGE, **fields: object) -> Op:
    return made(cls, x=value("x", image), **{"kernel": (2, 2), **fields})


def softmax(*shape: int, step: float = 1 / 256) -> Op:
    return made(Softmax, PerTensor(step, -128), x=value("x", shape))


def lut(function: Function, quant: Quant = OTHER, source: Quant = Q) -> Op:
    return made(Lut, quant, x=value("x", (2, 7), source), function=function, alpha=0.1)


def transposed(
    image: Shape = IMAGE, kernel: tuple[int, int] = (3, 2), stride: tuple[int, int] = (2, 1), **fields: object
) -> Op:
    held = weights((4, *kernel, image[3]))
    return made(
        TransposeConv2d, OTHER, x=value("x", image), weights=held, bias=bias(4), stride=stride, **fields
    )


def product(a: Quant = SYMMETRIC, b: Quant = SYMMETRIC) -> Op:
    return made(BatchMatmul, OTHER, a=value("a", (2, 3, 7), a), b=value("b", (2, 5, 7), b), adj_y=True)


def resize(cls: type[Op], height: int, width: int, image: Shape = IMAGE, **mode: bool) -> Op:
    mode = mode or {"half_pixel": cls is ResizeBilinear}
    return made(cls, x=value("x", image), size=(height, width), **mode)


def prelu(image: Shape = IMAGE, channels: int = 3) -> Op:
    slope = constant_value("s", np.ones(channels, np.int8), PerTensor(0.01))
    return made(Prelu, OTHER, x=value("x", (*image[:3], channels)), slope=slope)


def reduction(cls: type[Op]) -> Op:
    return made(cls, x=value("x", IMAGE), axes=(1, 2), keepdims=True)


def clamp(low: int, high: int, source: Quant = Q, quant: Quant | None = None) -> Op:
    return made(Clamp, quant or source, x=value("x", (2, 7), source), low=low, high=high)


def reshape(rank: int) -> Op:
    return Reshape(x=value("x", (2, 3)), y=value("y", (2, 3, *[1] * (rank - 2))))


def transpose(rank: int) -> Op:
    return made(Transpose, x=value("x", tuple(range(2, 2 + rank))), order=tuple(reversed(range(rank))))


def pad(rank: int) -> Op:
    return made(Pad, x=value("x", (2,) * rank), before=(1,) * rank, after=(0,) * rank, value=3)


def slice_(step: int) -> Op:
    return Slice(x=value("x", (7, 5)), y=value("y", (3, 5)), begin=(1, 0), step=(step, 1))


def concat() -> Op:
    return made(Concat, xs=(value("a", (2, 3)), value("b", (2, 5))), axis=1)


ACCEPTED: dict[str, Op] = {
    op.kind: op
    for op in (
        conv(),
        depthwise(),
        transposed(),
        linear(),
        product(),
        prelu(),
        resize(ResizeNearest, 14, 40),
        resize(ResizeBilinear, 7, 20),
        pair(Add, quant=OTHER),
        pair(Sub, quant=OTHER),
        pair(Mul, quant=OTHER),
        pair(Minimum),
        pair(Maximum),
        lut(Function.HARDSWISH),
        clamp(-20, 60),
        softmax(2, 7),
        pool(AvgPool2d),
        pool(MaxPool2d),
        *(reduction(cls) for cls in (Mean, ReduceSum, ReduceMax, ReduceMin)),
        concat(),
        slice_(1),
        pad(3),
        reshape(3),
        transpose(3),
    )
}
"""One op of each kind that the NPU takes."""

SHARED = (
    "avg_pool2d",
    "max_pool2d",
    "mean",
    "reduce_sum",
    "reduce_max",
    "reduce_min",
    "minimum",
    "maximum",
    "concat",
    "slice",
    "pad",
    "reshape",
    "transpose",
)


def with_types(op: Op, **changes: object) -> Op:
    """The op with the same change to the types of everything that it reads and makes, but constants."""
    values = [*op.activations, *op.results]
    return op.substitute({v: Value(v.name, dataclasses.replace(v.type, **changes)) for v in values})  # type: ignore[arg-type]  # the fields of a type


def with_result(op: Op, quant: Quant) -> Op:
    y = op.results[0]
    return op.substitute({y: Value(y.name, dataclasses.replace(y.type, quant=quant))})


def zero_point_of_weights(op: Op) -> Op:
    held = op.weights  # type: ignore[attr-defined]  # ops with weights
    return op.substitute({held: constant_value("w", held.constant, PerTensor(0.01, 1))})


def computed(op: Op, name: str) -> Op:
    """The op with one of its constants computed instead."""
    held = getattr(op, name)
    return op.substitute({held: Value(held.name, held.type)})


def broken(kind: str, **changes: object) -> Pair:
    """An accepted op, and the same with other types."""
    op = ACCEPTED[kind]
    return op, with_types(op, **changes)


def window(kind: str, build: Callable[..., Op], attribute: str, limit: int) -> dict[str, Pair]:
    """A number at its limit and one past it, along either axis; everything else is as small as it can be."""
    cases: dict[str, Pair] = {}
    for axis, side in enumerate(("height", "width")):
        image = tuple(limit + 2 if a == axis + 1 else 2 for a in range(4))
        at, past = (tuple(n if a == axis else 1 for a in range(2)) for n in (limit, limit + 1))
        rest = {} if attribute == "kernel" else {"kernel": tuple(2 if a == axis else 1 for a in range(2))}
        cases[f"{kind}.{attribute} {side}"] = (
            build(image, **{attribute: at}, **rest),
            build(image, **{attribute: past}, **rest),
        )
    return cases


def avg_pool(image: Shape, **fields: object) -> Op:
    return pool(AvgPool2d, image, **fields)


def max_pool(image: Shape, **fields: object) -> Op:
    return pool(MaxPool2d, image, **fields)


def dot(build: Callable[..., Op], channels: int) -> Op:
    return build((1, 1, 1, channels), kernel=(1, 1))


# Written out, not read from the device: a limit that changes there must change here.
LIMITS: dict[str, Pair] = {
    **window("conv2d", conv, "kernel", 4096),
    **window("conv2d", conv, "stride", 4096),
    **window("conv2d", conv, "dilation", 4096),
    **window("depthwise_conv2d", depthwise, "kernel", 4096),
    **window("depthwise_conv2d", depthwise, "stride", 4096),
    **window("depthwise_conv2d", depthwise, "dilation", 4096),
    **window("avg_pool2d", avg_pool, "kernel", 4096),
    **window("avg_pool2d", avg_pool, "stride", 4096),
    **window("max_pool2d", max_pool, "stride", 4096),
    "conv2d.dot_product channels": (dot(conv, 65528), dot(conv, 65529)),
    "conv2d.dot_product kernel": (
        conv((1, 2, 4095, 8), kernel=(2, 4095)),
        conv((1, 2, 4096, 8), kernel=(2, 4096)),
    ),
    "depthwise_conv2d.dot_product channels": (dot(depthwise, 65528), dot(depthwise, 65529)),
    "softmax.channels": (softmax(1, 2040), softmax(1, 2041)),
    "softmax.rows": (softmax(4096, 1), softmax(4097, 1)),
    "softmax.rows of several axes": (softmax(2, 16, 128, 3), softmax(17, 241, 3)),
    "softmax.elements": (softmax(4096, 128), softmax(481, 1090)),
    "softmax.output": (softmax(2, 7), softmax(2, 7, step=1 / 512)),
    "reshape.rank": (reshape(7), reshape(8)),
    "transpose.rank": (transpose(6), transpose(7)),
    "pad.rank": (pad(5), pad(6)),
    "add.scale": (pair(Add, quant=PerTensor(0.1 * 2.0**-18)), pair(Add, quant=PerTensor(0.1 * 2.0**-20))),
    "transpose_conv2d.kernel height": (
        transposed(kernel=(4096, 1), stride=(1, 1)),
        transposed(kernel=(4097, 1), stride=(1, 1)),
    ),
    "transpose_conv2d.kernel width": (
        transposed(kernel=(1, 4096), stride=(1, 2)),
        transposed(kernel=(1, 4097), stride=(1, 2)),
    ),
    "transpose_conv2d.stride": (
        transposed(kernel=(3, 3), stride=(2, 2)),
        transposed(kernel=(3, 3), stride=(2, 3)),
    ),
    "transpose_conv2d.stride and kernel": (transposed(kernel=(2, 1)), transposed(kernel=(1, 2))),
    "transpose_conv2d.dilation": (transposed(), transposed(dilation=(1, 2))),
    "transpose_conv2d.padding": (transposed(padding=(2, 1, 2, 1)), transposed(padding=(2, 1, 2, 2))),
    "transpose_conv2d.padding top": (transposed(padding=(2, 0, 0, 0)), transposed(padding=(3, 0, 0, 0))),
    "transpose_conv2d.dot_product": (
        transposed((1, 1, 1, 65528), (1, 1), (1, 1)),
        transposed((1, 1, 1, 65529), (1, 1), (1, 1)),
    ),
    "resize_nearest.factor": (resize(ResizeNearest, 56, 5), resize(ResizeNearest, 57, 5)),
    "resize_nearest.factor of three": (resize(ResizeNearest, 14, 5), resize(ResizeNearest, 14, 15)),
    "resize_bilinear.factor": (resize(ResizeBilinear, 7, 40), resize(ResizeBilinear, 7, 80)),
    "resize_bilinear.factor of corners": (
        resize(ResizeBilinear, 13, 33, align_corners=True),
        resize(ResizeBilinear, 14, 10, align_corners=True),
    ),
    "resize_bilinear.factor of one pixel": (
        resize(ResizeBilinear, 7, 9, align_corners=True),
        resize(ResizeBilinear, 7, 1, (1, 7, 1, 3), align_corners=True),
    ),
    "conv2d.groups": (conv((1, 5, 5, 6)), conv((1, 5, 5, 6), groups=2)),
    "depthwise_conv2d.multiplier": (depthwise(), depthwise(multiplier=2)),
    "slice.step": (slice_(1), slice_(2)),
    "clamp.bounds low": (clamp(-127, 127), clamp(-128, 127)),
    "clamp.bounds high": (clamp(-128, 126), clamp(-128, 127)),
}
"""Numbers: what stands behind the space only tells cases of one rule apart."""

RULES: dict[str, Pair] = {
    "batch_matmul.zero_points": (product(), product(a=PerTensor(0.1, 1))),
    "batch_matmul.zero_points second": (product(), product(b=PerTensor(0.1, -128))),
    "resize_nearest.mode": (resize(ResizeNearest, 7, 5), resize(ResizeNearest, 7, 5, half_pixel=True)),
    "resize_bilinear.mode": (
        resize(ResizeBilinear, 7, 5),
        resize(ResizeBilinear, 7, 5, half_pixel=False),
    ),
    "transpose_conv2d.constants": (transposed(), computed(transposed(), "bias")),
    "transpose_conv2d.zero_point": (transposed(), zero_point_of_weights(transposed())),
    "conv2d.constants": (conv(), computed(conv(), "weights")),
    "depthwise_conv2d.constants": (depthwise(), computed(depthwise(), "weights")),
    "linear.constants": (linear(), computed(linear(), "bias")),
    "conv2d.zero_point": (conv(), zero_point_of_weights(conv())),
    "depthwise_conv2d.zero_point": (depthwise(), zero_point_of_weights(depthwise())),
    "linear.zero_point": (linear(), zero_point_of_weights(linear())),
    "linear.weights": (
        linear(PerChannel((0.01,) * 5, 0)),
        linear(PerChannel((0.01, 0.02, 0.01, 0.01, 0.01), 0)),
    ),
    "avg_pool2d.padding": (pool(AvgPool2d), pool(AvgPool2d, padding=(0, 1, 0, 0))),
    "lut.function": (lut(Function.HARDSWISH), lut(Function.GELU)),
    "lut.output": (
        lut(Function.SIGMOID, PerTensor(1 / 256, -128)),
        lut(Function.SIGMOID, PerTensor(1 / 256, -127)),
    ),
    "lut.output tanh": (lut(Function.TANH, PerTensor(1 / 128)), lut(Function.TANH, PerTensor(1 / 256))),
    "lut.table": (lut(Function.EXP), lut(Function.EXP, PerTensor(1e-4))),
    "clamp.form": (clamp(-5, 127, Q, OTHER), clamp(-4, 127, Q, OTHER)),
    "clamp.form relu6": (clamp(-5, 25, Q, OTHER), clamp(-5, 24, Q, OTHER)),
    "clamp.bounds relu": (
        clamp(-128, 127, Q, PerTensor(0.1, -128)),
        clamp(-128, 127, PerTensor(0.1, -128), PerTensor(0.2, -128)),
    ),
    "clamp.bounds above": (clamp(3, 127, PerTensor(0.1, 3)), clamp(127, 127, PerTensor(0.1, 127))),
    **{f"{kind}.dtype": broken(kind, dtype=DType.INT16) for kind in ACCEPTED},
    **{f"{kind}.parameters": (ACCEPTED[kind], with_result(ACCEPTED[kind], OTHER)) for kind in SHARED},
    **{
        f"{cls.kind}.broadcast": (pair(cls), pair(cls, (2, 3, 1), (1, 1, 5)))
        for cls in (Add, Sub, Mul, Minimum, Maximum)
    },
}
"""Everything else."""
