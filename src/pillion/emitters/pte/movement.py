# SPDX-License-Identifier: Apache-2.0
"""Rows for ops that only move data, on contiguous tensors with as few axes as possible."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pillion.devices.cortex_m import Isa
from pillion.emitters.pte.library_limits import uses_matrix_transpose
from pillion.emitters.pte.node import (
    KernelCall,
    NodeView,
    PteSettings,
    contiguous_view,
    no_exact_kernel_error,
    temporary_tensor,
)
from pillion.ir.types import DType, Shape
from pillion.ops import Concat, Flip, Pad, Slice, Transpose

MOST_AXES = 4
"""The most axes of the `cortex_m` kernels for pad and transpose."""


def concat(op: Concat, settings: PteSettings) -> list[KernelCall]:
    """Returns the call of a concatenation over two axes: all before the concatenated one merged, and the rest
    merged."""
    outer = math.prod(op.y.shape[: op.axis])
    xs = tuple(contiguous_view(x).reshaped(outer, x.type.elements // max(outer, 1)) for x in op.xs)
    return [
        KernelCall(
            "aten::cat.out",
            (xs, 1),
            contiguous_view(op.y).reshaped(outer, op.y.type.elements // max(outer, 1)),
        )
    ]


def slice_copy(op: Slice, settings: PteSettings) -> list[KernelCall]:
    """Returns the calls of a slice, axis by axis, largest reduction first; a copy if nothing is dropped."""
    if op.is_identity:
        size = op.x.type.elements
        return [
            strided_slice_call(
                contiguous_view(op.x).reshaped(size), 0, 0, 1, contiguous_view(op.y).reshaped(size)
            )
        ]
    axes = [a for a in range(op.x.type.rank) if op.x.shape[a] != op.y.shape[a]]
    axes.sort(key=lambda a: op.y.shape[a] / op.x.shape[a])
    calls: list[KernelCall] = []
    x = contiguous_view(op.x)
    for axis in axes:
        shape = tuple(op.y.shape[axis] if a == axis else size for a, size in enumerate(x.sizes))
        y = contiguous_view(op.y) if axis == axes[-1] else temporary_tensor(shape, op.y.dtype)
        calls.append(strided_slice_call(x, axis, op.begin[axis], op.step[axis], y))
        x = y
    return calls


def strided_slice_call(x: NodeView, axis: int, begin: int, step: int, y: NodeView) -> KernelCall:
    """Returns the copy of every `step`-th element from `begin` along one axis, as many as y has."""
    before, after = math.prod(x.sizes[:axis]), math.prod(x.sizes[axis + 1 :])
    count = y.sizes[axis]
    args = (x.reshaped(before, x.sizes[axis], after), 1, begin, begin + step * (count - 1) + 1, step)
    return KernelCall("aten::slice_copy.Tensor_out", args, y.reshaped(before, count, after))


MOST_PIECES = 64
"""The most pieces in one concatenation of a flip."""


def flip(op: Flip, settings: PteSettings) -> list[KernelCall]:
    """Returns the calls of a flip. No kernel reverses: an axis is cut into pieces, which are concatenated in
    reverse order. An axis of a·b elements is a rows of b: first the rows are reversed, then the elements in
    each row. So 224 elements take five steps of 2 pieces and one of 7 instead of 224 pieces."""
    cuts = [
        (axis, outer, pieces, inner) for axis in op.axes for outer, pieces, inner in _flip_steps(op, axis)
    ]
    dtype, elements = op.y.dtype, op.y.type.elements
    between = [temporary_tensor((elements,), dtype) for _ in cuts[1:3]]
    buffers = {
        n: [temporary_tensor((elements // n,), dtype) for _ in range(n)] for n in {n for _, _, n, _ in cuts}
    }
    calls: list[KernelCall] = []
    x = contiguous_view(op.x)
    for number, (axis, outer, pieces, inner) in enumerate(cuts):
        before, after = math.prod(op.x.shape[:axis]) * outer, math.prod(op.x.shape[axis + 1 :]) * inner
        y = contiguous_view(op.y) if number == len(cuts) - 1 else between[number % 2]
        parts = [part.reshaped(before, 1, after) for part in buffers[pieces]]
        calls += [
            strided_slice_call(x.reshaped(before, pieces, after), 1, i, 1, part)
            for i, part in enumerate(parts)
        ]
        calls.append(KernelCall("aten::cat.out", (tuple(parts[::-1]), 1), y.reshaped(before, pieces, after)))
        x = y
    return calls


def _flip_steps(op: Flip, axis: int) -> Iterator[tuple[int, int, int]]:
    """Yields the steps of one axis: rows, pieces per row, elements per piece."""
    outer, inner = 1, op.x.shape[axis]
    while inner > 1:
        pieces = next((p for p in range(2, MOST_PIECES + 1) if inner % p == 0), inner)
        if pieces > MOST_PIECES:
            raise no_exact_kernel_error(
                op,
                f"the size of a flipped axis is a product of numbers up to {MOST_PIECES}",
                f"{op.x.shape[axis]} along axis {axis}",
                "flip before the model, --kernels pillion, or write C: -o folder/",
            )
        inner //= pieces
        yield outer, pieces, inner
        outer *= pieces


def pad(op: Pad, settings: PteSettings) -> list[KernelCall]:
    """Returns the calls of a padding."""
    sizes, before, after = _merged_padding(op)
    x, y = (
        contiguous_view(op.x).reshaped(*sizes),
        contiguous_view(op.y).reshaped(*map(sum, zip(before, sizes, after, strict=True))),
    )
    if op.x.dtype is not DType.INT8 or len(sizes) > MOST_AXES:
        return [_general_pad(op, x, y, before, after)]
    missing = (0,) * (MOST_AXES - len(sizes))
    if len(sizes) == MOST_AXES:
        # The kernel mistakes a contiguous tensor of rank 4 for an image if some sizes are 1, so it gets an image.
        (n, h, w, c), (yn, yh, yw, yc) = x.sizes, y.sizes
        x, y = x.image(n, h, w, c), y.image(yn, yh, yw, yc)
    return [KernelCall("cortex_m::pad.out", (x, (*missing, *before), (*missing, *after), int(op.value)), y)]


def _merged_padding(op: Pad) -> tuple[list[int], list[int], list[int]]:
    """Returns sizes and paddings, with neighbouring unpadded axes merged."""
    sizes, before, after = [op.x.shape[0]], [op.before[0]], [op.after[0]]
    for size, b, a in zip(op.x.shape[1:], op.before[1:], op.after[1:], strict=True):
        if b == a == before[-1] == after[-1] == 0:
            sizes[-1] *= size
        else:
            sizes.append(size)
            before.append(b)
            after.append(a)
    return sizes, before, after


def _general_pad(
    op: Pad, x: NodeView, y: NodeView, before: Sequence[int], after: Sequence[int]
) -> KernelCall:
    """Returns ATen's padding, whose list begins with the last axis."""
    sides = tuple(side for pair in zip(before[::-1], after[::-1], strict=True) for side in pair)
    level = op.value if op.x.dtype is DType.FLOAT32 else int(op.value)
    return KernelCall("aten::constant_pad_nd.out", (x, sides, level), y)


def transpose(op: Transpose, settings: PteSettings) -> list[KernelCall]:
    """Returns the calls of a transposition."""
    return transposition_calls(contiguous_view(op.x), op.order, contiguous_view(op.y), settings.isa)


def transposition_calls(x: NodeView, order: Sequence[int], y: NodeView, isa: Isa) -> list[KernelCall]:
    """Returns the calls after which axis i of y is axis order[i] of x."""
    sizes, moved = merged_axes(x.sizes, order)
    if len(sizes) == 2 and not uses_matrix_transpose(*sizes, isa):
        sizes, moved = (1, *sizes), (0, 2, 1)
    x, y = x.reshaped(*sizes), y.reshaped(*(sizes[a] for a in moved))
    if x.dtype is DType.INT8 and len(sizes) <= MOST_AXES:
        return [KernelCall("cortex_m::transpose.out", (x, moved), y)]
    return [KernelCall("aten::permute_copy.out", (x, moved), y)]


def merged_axes(shape: Shape, order: Sequence[int]) -> tuple[Shape, tuple[int, ...]]:
    """Returns the permutation with as few axes as possible: axes of size 1 dropped, adjacent ones merged."""
    runs: list[list[int]] = []
    for axis in (a for a in order if shape[a] != 1):
        if runs and _are_axes_adjacent(shape, runs[-1][-1], axis):
            runs[-1].append(axis)
        else:
            runs.append([axis])
    ranked = sorted(range(len(runs)), key=lambda i: runs[i][0])
    sizes = tuple(math.prod(shape[a] for a in runs[i]) for i in ranked)
    return sizes, tuple(ranked.index(i) for i in range(len(runs)))


def _are_axes_adjacent(shape: Shape, axis: int, next_axis: int) -> bool:
    """Whether only axes of size 1 lie between two axes in memory."""
    return axis < next_axis and all(shape[a] == 1 for a in range(axis + 1, next_axis))
