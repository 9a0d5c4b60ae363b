# SPDX-License-Identifier: Apache-2.0
"""Limits of the converter's old flow, which ended with SDK 3.1.2. It works on blocks of as many channels as a
pipeline has multiply-accumulates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pillion import ops
from pillion.devices import predicates
from pillion.devices.device import Found, Limit, RuleRow, limit
from pillion.devices.op_groups import RESIZES
from pillion.ir.op import Op

SOURCE = "old flow, ExecuTorch of April 2026"
MAX_PRELU_PIXELS = 4096
ABSENT = (ops.Minimum, ops.Maximum, ops.ReduceMax, ops.ReduceMin, ops.ReduceSum)
"""The ops that the old flow does not have."""


def old_flow_rows(macs: int) -> Iterator[RuleRow]:
    """Yields the rules of the old flow that the new one does not have, for pipelines of this many
    multiply-accumulates."""
    channels = multiples(macs, lambda op: op.y.shape[-1:])
    one_image = predicates.at_most(1, lambda op: op.x.shape[0])
    rows = predicates.at_most(2, lambda op: op.stride[0], "1 or 2 rows further for each row")
    pixels = predicates.at_most(MAX_PRELU_PIXELS, lambda op: op.y.type.elements // op.y.shape[-1])
    table: tuple[tuple[Any, str, Limit], ...] = (
        (ABSENT, "flow", Limit("SDK 3.1.2 or later", lambda op: ("an older one", False))),
        ((ops.Add, ops.Sub, ops.Mul), "shapes", equal_shapes),
        (ops.Mul, "blocks", one_axis_in_blocks(macs)),
        (ops.Mean, "axes", height_and_width),
        ((ops.Mean, ops.MaxPool2d, ops.Prelu, *RESIZES), "channels", channels),
        (ops.TransposeConv2d, "channels", multiples(macs, lambda op: (op.in_channels, op.out_channels))),
        (ops.Concat, "channels", multiples(macs, lambda op: tuple(x.shape[-1] for x in op.operands))),
        (ops.Slice, "cuts", multiples(macs, cut_sizes)),
        (ops.BatchMatmul, "blocks", multiples(macs, lambda op: (op.rows, op.depth, op.columns))),
        ((ops.Conv2d, ops.DepthwiseConv2d, ops.MaxPool2d), "batch", one_image),
        (ops.MaxPool2d, "rows", rows),
        (ops.TransposeConv2d, "windows", flat_windows),
        (ops.Clamp, "family", relu_bounds),
        (ops.Pad, "axes", Limit("none on the last axis", _last_axis_padding)),
        (ops.Prelu, "pixels", pixels),
        (RESIZES, "zoom", doubled_or_quadrupled),
        (ops.Transpose, "order", image_orders(macs)),
    )
    yield from ((*row, SOURCE) for row in table)


def multiples(of: int, sizes: Callable[[Any], tuple[int, ...]]) -> Limit:
    """Requires that all sizes are multiples of a number."""

    def found(op: Op) -> Found:
        have = sizes(op)
        return ", ".join(map(str, have)) or "none", not any(size % of for size in have)

    return Limit(f"multiples of {of}", found)


def cut_sizes(op: ops.Slice) -> tuple[int, ...]:
    """Returns the sizes of the axes that a slice shortens."""
    return tuple(size for size, whole in zip(op.y.shape, op.x.shape, strict=True) if size != whole)


def one_axis_in_blocks(macs: int) -> Limit:
    """Requires that blocks divide an axis, unless there is one element."""

    def found(op: Op) -> Found:
        shape = op.results[0].shape
        return list(shape), set(shape) <= {1} or any(size % macs == 0 for size in shape)

    return Limit(f"an axis that is a multiple of {macs}, or one element", found)


@limit("operands of the result's shape")
def equal_shapes(op: Op) -> Found:
    """No operand is broadcast."""
    shapes = {v.shape for v in (*op.operands, *op.results)}
    return " and ".join(str(list(shape)) for shape in sorted(shapes)), len(shapes) == 1


@limit("height and width of images")
def height_and_width(op: ops.Mean) -> Found:
    """The mean is taken over each channel of an image."""
    return f"axes {op.axes} of {op.x.type.rank}", sorted(op.axes) == [1, 2] and op.x.type.rank == 4


@limit("the bounds of relu, relu6, relu_n1_to_1 or relu_0_to_1")
def relu_bounds(op: ops.Clamp) -> Found:
    """Other bounds do not become minimum and maximum."""
    function = predicates.relu_like(op)
    return function or "other bounds", function is not None


def _last_axis_padding(op: ops.Pad) -> Found:
    ends = (op.before[-1], op.after[-1])
    return ends, ends == (0, 0)


@limit("windows of one row and an even width, a stride of that width or, of one row, half of it")
def flat_windows(op: ops.TransposeConv2d) -> Found:
    """Transposed convolutions go along one row; only an image of one row has padding."""
    (height, width), (rows, columns) = op.kernel, op.stride
    top, left, bottom, right = op.padding
    flat = height == 1 and width % 2 == 0 and rows == 1 and not (top or bottom)
    columns_fit = columns == width or (columns == width // 2 and op.y.shape[1] == 1)
    padded = not (left or right) or op.x.shape[1] == 1
    return f"{op.kernel} by {op.stride}, padding {op.padding}", flat and columns_fit and padded


@limit("height and width both scaled by 2, or both by 4")
def doubled_or_quadrupled(op: ops.ResizeNearest | ops.ResizeBilinear) -> Found:
    """An image keeps its proportions."""
    less = int(op.align_corners)
    axes = [(before - less, after - less) for before, after in zip(op.x.shape[1:3], op.size, strict=True)]
    fits = any(all(after == factor * before for before, after in axes) for factor in (2, 4))
    return " and ".join(f"{after}/{before}" for before, after in axes), fits


def image_orders(macs: int) -> Limit:
    """Requires one of two orders of an image whose sizes are multiples, or that only axes of one element move."""

    def found(op: ops.Transpose) -> Found:
        shape = op.x.shape
        kept = [axis for axis in op.order if shape[axis] > 1]
        if kept == sorted(kept):
            return "moves axes of one element", True
        blocks: dict[tuple[int, ...], tuple[int, ...]] = {}
        if len(shape) == 4:
            _, a, b, c = shape
            blocks = {(0, 3, 1, 2): (c, a * b), (0, 2, 3, 1): (a, c, b * c)}
        sizes = blocks.get(tuple(op.order))
        fits = sizes is not None and shape[0] == 1 and not any(size % macs for size in sizes)
        return f"{op.order} of {list(shape)}", fits

    wants = f"(0, 3, 1, 2) or (0, 2, 3, 1) of one image with multiples of {macs}, or axes of one element"
    return Limit(wants, found)
