# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses
from typing import Any

from pillion.ir.graph import Graph, UniqueNames, rewrite
from pillion.ir.op import Op
from pillion.ir.types import Shape, Sides, Value
from pillion.ops import Conv2d, DepthwiseConv2d, Reshape, Slice


def crop_padding(graph: Graph) -> Graph:
    """Shrinks the padding of a convolution by the rows and columns that a slice cuts off behind it. A causal
    convolution that is written as padding at both ends and a slice is padded in front only."""
    return rewrite(graph, _crop_conv_padding)


def _crop_conv_padding(graph: Graph, op: Op) -> list[Op] | None:
    if not isinstance(op, Slice) or set(op.step) != {1}:
        return None
    shaped = graph.producers.get(op.x)
    conv_result = shaped.x if isinstance(shaped, Reshape) and graph.only_user(op.x) is op else op.x
    conv = graph.producers.get(conv_result)
    if not isinstance(conv, Conv2d | DepthwiseConv2d) or graph.only_user(conv_result) not in (op, shaped):
        return None
    cuts = _sliced_off(op, conv_result.shape)
    padding = _remaining_padding(conv, cuts) if cuts else None
    if padding is None:
        return None
    if conv_result is op.x:
        return [dataclasses.replace(conv, y=op.y, padding=padding)]
    shape = tuple(size - sum(cuts.get(axis, ())) for axis, size in enumerate(conv_result.shape))
    y = Value(
        UniqueNames(graph.values).fresh(f"{op.y.name}_made"),
        dataclasses.replace(conv_result.type, shape=shape),
    )
    return [dataclasses.replace(conv, y=y, padding=padding), Reshape(x=y, y=op.y, source=op.source)]


def _sliced_off(op: Slice, result_shape: Shape) -> dict[int, tuple[int, int]]:
    """Returns what the slice cuts off in front and behind along each axis of the convolution's result; empty
    if the axes differ."""
    axes = _same_axes(op.x.shape, result_shape)
    extents = enumerate(zip(op.begin, op.x.shape, op.y.shape, strict=True))
    cuts = {a: (begin, size - begin - new_size) for a, (begin, size, new_size) in extents if size != new_size}
    crops = {axes[a]: cut for a, cut in cuts.items()} if axes else {}
    return crops if crops.keys() <= {1, 2} else {}


def _same_axes(shape: Shape, result_shape: Shape) -> dict[int, int] | None:
    """Maps the axes of size ≠ 1 of one shape to those of another; None if the shapes differ in more than
    axes of size 1."""
    ours, theirs = ([a for a, size in enumerate(s) if size != 1] for s in (shape, result_shape))
    same = [shape[a] for a in ours] == [result_shape[a] for a in theirs]
    return dict(zip(ours, theirs, strict=True)) if same else None


def _remaining_padding(conv: Any, cuts: dict[int, tuple[int, int]]) -> Sides | None:
    """Returns the remaining padding; None if the slice cuts off more than padding."""
    padding = list(conv.padding)
    for axis, (front, back) in cuts.items():
        stride = conv.stride[axis - 1]
        padding[axis - 1] -= front * stride
        padding[axis + 1] -= back * stride
    return (padding[0], padding[1], padding[2], padding[3]) if min(padding) >= 0 else None
