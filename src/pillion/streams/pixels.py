# SPDX-License-Identifier: Apache-2.0
"""A convolution that makes one pixel is a linear layer over the pixels that it sees: kernels for one vector do in half the time what those
for images do."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from pillion.ir.graph import Graph, Names
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType, PerChannel, TensorType, Value, constant
from pillion.ops import Conv2d, Linear, Reshape, Slice


def linear_pixels(graph: Graph) -> Graph:
    """Turns convolutions that make one pixel into linear layers. In LiteRT's arithmetic the two round differently: there they stay."""
    if graph.arithmetic is not Arithmetic.CMSIS_NN:
        return graph
    names = Names(graph.values)
    return graph.replace(ops=tuple(made for op in graph.ops for made in _remade(op, names)))


def _remade(op: Op, names: Names) -> Iterator[Op]:
    if not isinstance(op, Conv2d) or not _is_linear(op):
        yield op
        return
    seen = (1, *op.kernel, op.in_channels)
    x, flat, y = op.x, _shaped(names, op.x, (1, op.weights.type.elements // op.out_channels)), op.y
    if x.shape != seen:
        taken = _shaped(names, x, seen)
        yield Slice(x=x, y=taken, begin=(0,) * 4, step=(1, *op.dilation, 1), source=op.source)
        x = taken
    yield Reshape(x=x, y=flat, source=op.source)
    weights = constant(
        names.fresh(f"{op.weights.name}_rows"),
        op.weights.constant.reshape(op.out_channels, -1),
        op.weights.type.quant,
    )
    pixel = _shaped(names, y, (1, op.out_channels))
    rest = {"low": op.low, "high": op.high, "given": op.given, "source": op.source}
    yield Linear(x=flat, weights=weights, bias=op.bias, y=pixel, **rest)  # type: ignore[arg-type]  # by name
    yield Reshape(x=pixel, y=y, source=op.source)


def _is_linear(op: Conv2d) -> bool:
    """Whether a convolution makes one pixel, of pixels that are all there; those of one pixel have kernels of their own."""
    quant = op.weights.type.quant
    is_dense = op.groups == 1 and op.weights.is_constant and op.x.dtype is DType.INT8
    is_one = op.y.shape[:3] == (1, 1, 1) and not any(op.padding) and op.kernel != (1, 1)
    return is_dense and is_one and not (isinstance(quant, PerChannel) and quant.axis)


def _shaped(names: Names, value: Value, shape: tuple[int, ...]) -> Value:
    kept = dataclasses.replace(value.type, shape=shape)
    return Value(names.fresh(f"{value.name}_pixels"), TensorType(shape, kept.dtype, kept.quant))
