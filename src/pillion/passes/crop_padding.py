# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import dataclasses

from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ir.types import Pair, Shape, Sides
from pillion.ops import Conv2d, DepthwiseConv2d, Reshape, Slice


@rewrite_pass(Slice)
def crop_padding(op: Slice, at: RewriteSweep) -> Replacement:
    """Shrinks the padding of a convolution by the rows and columns that a slice cuts off behind it. A causal
    convolution that is written as padding at both ends and a slice is padded in front only."""
    graph = at.graph
    shaped = graph.producers.get(op.x)
    made = shaped.x if isinstance(shaped, Reshape) and graph.only_user(op.x) is op else op.x
    conv = graph.producers.get(made)
    if not isinstance(conv, Conv2d | DepthwiseConv2d) or graph.only_user(made) not in (op, shaped):
        return None
    cuts = _sliced_off(op, made.shape) if set(op.step) == {1} else {}
    padding = _remaining_padding(conv, cuts)
    if not cuts or min(padding) < 0:
        return None
    if made is op.x:
        return [dataclasses.replace(conv, y=op.y, padding=padding)]
    shape = tuple(size - sum(cuts.get(axis, ())) for axis, size in enumerate(made.shape))
    y = made.like(at.names.fresh(f"{op.y.name}_made"), shape=shape)
    return [dataclasses.replace(conv, y=y, padding=padding), Reshape(x=y, y=op.y, source=op.source)]


def _sliced_off(op: Slice, result_shape: Shape) -> dict[int, Pair]:
    """Returns the elements that the slice cuts off in front and behind along each axis of the convolution's result;
    empty if the axes differ."""
    axes = _same_axes(op.x.shape, result_shape)
    extents = enumerate(zip(op.begin, op.x.shape, op.y.shape, strict=True))
    cuts = {a: (begin, size - begin - new_size) for a, (begin, size, new_size) in extents if size != new_size}
    crops = {axes[a]: cut for a, cut in cuts.items()} if axes else {}
    return crops if crops.keys() <= {1, 2} else {}


def _same_axes(shape: Shape, result_shape: Shape) -> dict[int, int] | None:
    """Maps the axes of size ≠ 1 of one shape to another's; None if the shapes differ in more than axes of size 1."""
    ours, theirs = ([a for a, size in enumerate(s) if size != 1] for s in (shape, result_shape))
    same = [shape[a] for a in ours] == [result_shape[a] for a in theirs]
    return dict(zip(ours, theirs, strict=True)) if same else None


def _remaining_padding(conv: Conv2d | DepthwiseConv2d, cuts: dict[int, Pair]) -> Sides:
    """Returns the remaining padding; negative where the slice cuts off more than padding."""
    (above, below), (before, behind) = (cuts.get(axis, (0, 0)) for axis in (1, 2))
    (top, left, bottom, right), (down, across) = conv.padding, conv.stride
    return top - above * down, left - before * across, bottom - below * down, right - behind * across
