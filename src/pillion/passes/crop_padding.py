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
    made = shaped.x if isinstance(shaped, Reshape) and graph.only_user(op.x) is op else op.x
    conv = graph.producers.get(made)
    if not isinstance(conv, Conv2d | DepthwiseConv2d) or graph.only_user(made) not in (op, shaped):
        return None
    cuts = _sliced_off(op, made.shape)
    padding = _remaining_padding(conv, cuts) if cuts else None
    if padding is None:
        return None
    if made is op.x:
        return [dataclasses.replace(conv, y=op.y, padding=padding)]
    shape = tuple(size - sum(cuts.get(axis, ())) for axis, size in enumerate(made.shape))
    y = Value(
        UniqueNames(graph.values).fresh(f"{op.y.name}_made"), dataclasses.replace(made.type, shape=shape)
    )
    return [dataclasses.replace(conv, y=y, padding=padding), Reshape(x=y, y=op.y, source=op.source)]


def _sliced_off(op: Slice, made: Shape) -> dict[int, tuple[int, int]]:
    """Returns what the slice cuts off in front and behind along each axis of the convolution's result; empty
    if the axes differ."""
    axes = _same_axes(op.x.shape, made)
    places = enumerate(zip(op.begin, op.x.shape, op.y.shape, strict=True))
    cuts = {a: (begin, size - begin - kept) for a, (begin, size, kept) in places if size != kept}
    found = {axes[a]: cut for a, cut in cuts.items()} if axes else {}
    return found if found.keys() <= {1, 2} else {}


def _same_axes(shape: Shape, other: Shape) -> dict[int, int] | None:
    """Maps the axes of size ≠ 1 of one shape to those of another; None if the shapes differ in more than
    axes of size 1."""
    ours, theirs = ([a for a, size in enumerate(s) if size != 1] for s in (shape, other))
    same = [shape[a] for a in ours] == [other[a] for a in theirs]
    return dict(zip(ours, theirs, strict=True)) if same else None


def _remaining_padding(conv: Any, cuts: dict[int, tuple[int, int]]) -> Sides | None:
    """Returns the remaining padding; None if the slice cuts off more than padding."""
    padding = list(conv.padding)
    for axis, (front, back) in cuts.items():
        stride = conv.stride[axis - 1]
        padding[axis - 1] -= front * stride
        padding[axis + 1] -= back * stride
    return (padding[0], padding[1], padding[2], padding[3]) if min(padding) >= 0 else None
