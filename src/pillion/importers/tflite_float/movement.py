# SPDX-License-Identifier: Apache-2.0
"""Reads operators that only move data as PyTorch functions."""

from __future__ import annotations

from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from pillion.importers.tflite.geometry import axis_of, strides
from pillion.importers.tflite.model import ReadOperator
from pillion.importers.tflite.operands import with_axes
from pillion.importers.tflite_float.readings import FloatCall, Reading, activation, computed
from pillion.schemas import tflite


def reshape(call: ReadOperator) -> FloatCall:
    """Reads a reshape to the result's shape."""
    shape = call.result.shape
    return computed(call, lambda x: x.reshape(shape))


def transpose(call: ReadOperator) -> FloatCall:
    """Reads a transpose."""
    rank = call.operand(0).type.rank
    order = tuple(axis_of(call, axis, rank) for axis in call.integers(1))
    return computed(call, lambda x: x.permute(order))


def concat(call: ReadOperator) -> FloatCall:
    """Reads a concatenation."""
    options, rank = call.options_as(tflite.ConcatenationOptions), call.result.type.rank
    axis, after = axis_of(call, options.axis, rank), activation(call, options.fused_activation)
    return computed(call, lambda *xs: after(torch.cat(xs, axis)), operands=tuple(range(len(call.inputs))))


def pack(call: ReadOperator) -> FloatCall:
    """Reads a stack of tensors along a new axis."""
    axis = axis_of(call, call.options_as(tflite.PackOptions).axis, call.result.type.rank)
    return computed(call, lambda *xs: torch.stack(xs, axis), operands=tuple(range(len(call.inputs))))


def unpack(call: ReadOperator) -> FloatCall:
    """Reads the slices of a tensor along an axis, which is dropped."""
    axis = axis_of(call, call.options_as(tflite.UnpackOptions).axis, call.operand(0).type.rank)
    return computed(call, lambda x: torch.unbind(x, axis))


def split(call: ReadOperator) -> FloatCall:
    """Reads a split into equal parts; the axis is the first operand."""
    return _pieces(call, 1, call.integers(0))


def split_v(call: ReadOperator) -> FloatCall:
    """Reads a split; the axis is the last operand."""
    return _pieces(call, 0, call.integers(2))


def _pieces(call: ReadOperator, operand: int, axes: list[int]) -> FloatCall:
    if len(axes) != 1:
        raise call.refuse("there is one axis", axes)
    axis = axis_of(call, axes[0], call.operand(operand).type.rank)
    sizes = [y.shape[axis] if axis < y.type.rank else 0 for y in call.outputs]
    return computed(call, lambda x: torch.split(x, sizes, axis), operands=(operand,))


def slice_of(call: ReadOperator) -> FloatCall:
    """Reads a slice by its begin; the result has its size."""
    begin, shape = call.integers(1), call.result.shape
    if len(begin) != len(shape) or min(begin, default=0) < 0:
        raise call.refuse("a slice begins somewhere on every axis", begin)
    where = tuple(slice(first, first + size) for first, size in zip(begin, shape, strict=True))
    return computed(call, lambda x: x[where])


def strided_slice(call: ReadOperator) -> FloatCall:
    """Reads a strided slice; shrunk axes are dropped."""
    options, shape = call.options_as(tflite.StridedSliceOptions), call.result.shape
    found = strides(call, call.operand(0).shape, options)
    where = tuple(
        slice(first, first + (size - 1) * step + 1, step)
        for first, step, size in zip(found.begin, found.step, found.sizes, strict=True)
    )
    return computed(call, lambda x: x[where].reshape(shape))


def reverse(call: ReadOperator) -> FloatCall:
    """Reads elements in reverse order along some axes."""
    rank = call.operand(0).type.rank
    axes = tuple(axis_of(call, axis, rank) for axis in call.integers(1))
    return computed(call, lambda x: torch.flip(x, axes))


def pad(call: ReadOperator) -> FloatCall:
    """Reads a padding with zeros, or with the number in the last operand."""
    rank, sizes = call.operand(0).type.rank, call.constant(1).constant
    if sizes.shape != (rank, 2) or sizes.min(initial=0) < 0:
        raise call.refuse("there is a padding before and after each axis", sizes.tolist())
    flat = [int(n) for pair in sizes[::-1] for n in pair]
    value = float(call.constant(2).constant.reshape(-1)[0]) if call.code == "PADV2" else 0.0
    return computed(call, lambda x: F.pad(x, flat, value=value))


def gather(call: ReadOperator) -> FloatCall:
    """Reads slices by index."""
    options, x, numbers = call.options_as(tflite.GatherOptions), call.operand(0), call.operand(1)
    axis, shape = axis_of(call, options.axis, x.type.rank), call.result.shape
    if options.batch_dims:
        raise call.refuse("there are no batch axes", options.batch_dims)
    if numbers.is_constant and not 0 <= numbers.constant.min() <= numbers.constant.max() < x.shape[axis]:
        raise call.refuse(f"numbers of slices are from 0 to {x.shape[axis] - 1}", repr(numbers))

    def forward(x: Tensor, numbers: Tensor) -> Tensor:
        return torch.index_select(x, axis, numbers.reshape(-1)).reshape(shape)

    return computed(call, forward, operands=(0, 1))


def tile(call: ReadOperator) -> FloatCall:
    """Reads a tensor repeated along its axes."""
    counts = call.integers(1)
    return computed(call, lambda x: x.repeat(counts))


def space_to_depth(call: ReadOperator) -> FloatCall:
    """Reads blocks of pixels as channels."""
    (n, height, width, channels), y = (
        with_axes(call, call.operand(0), 4).shape,
        with_axes(call, call.result, 4),
    )
    block = height // y.shape[1]

    def forward(x: Tensor) -> Tensor:
        parts = x.reshape(n, height // block, block, width // block, block, channels)
        return parts.permute(0, 1, 3, 2, 4, 5).reshape(y.shape)

    return computed(call, forward)


def depth_to_space(call: ReadOperator) -> FloatCall:
    """Reads channels as blocks of pixels."""
    (n, height, width, channels), y = (
        with_axes(call, call.operand(0), 4).shape,
        with_axes(call, call.result, 4),
    )
    block = y.shape[1] // height

    def forward(x: Tensor) -> Tensor:
        parts = x.reshape(n, height, width, block, block, channels // block**2)
        return parts.permute(0, 1, 3, 2, 4, 5).reshape(y.shape)

    return computed(call, forward)


def space_to_batch(call: ReadOperator) -> FloatCall:
    """Reads pixels, padded and distributed over more images."""
    block, borders = _block_and_borders(call)
    count, shape = len(block), call.operand(0).shape
    padding = [0, 0] * (len(shape) - 1 - count) + [
        n for i in reversed(range(count)) for n in borders[2 * i : 2 * i + 2]
    ]
    sizes = [d + sum(borders[2 * i : 2 * i + 2]) for i, d in enumerate(shape[1 : 1 + count])]
    if any(size % b for size, b in zip(sizes, block, strict=True)):
        raise call.refuse("axes are whole blocks", f"{sizes} in blocks of {block}")
    pairs = [part for size, b in zip(sizes, block, strict=True) for part in (size // b, b)]
    inner = shape[1 + count :]
    order = (*range(2, 2 + 2 * count, 2), 0, *range(1, 1 + 2 * count, 2))
    last = tuple(range(1 + 2 * count, 1 + 2 * count + len(inner)))

    def forward(x: Tensor) -> Tensor:
        parts = F.pad(x, padding).reshape(shape[0], *pairs, *inner)
        return parts.permute(*order, *last).reshape(shape[0] * prod(block), *pairs[::2], *inner)

    return computed(call, forward)


def batch_to_space(call: ReadOperator) -> FloatCall:
    """Reads images whose pixels are interleaved and cropped."""
    block, crops = _block_and_borders(call)
    count, shape = len(block), call.operand(0).shape
    if shape[0] % prod(block):
        raise call.refuse("images are whole blocks", f"{list(shape)} in blocks of {block}")
    images, inner = shape[0] // prod(block), shape[1 + count :]
    sizes = [d * b for d, b in zip(shape[1:], block, strict=False)]
    order = (count, *(i for n in range(count) for i in (count + 1 + n, n)))
    last = tuple(range(2 * count + 1, 2 * count + 1 + len(inner)))
    cut = (slice(None), *(slice(crops[2 * i], d - crops[2 * i + 1]) for i, d in enumerate(sizes)))

    def forward(x: Tensor) -> Tensor:
        parts = x.reshape(*block, images, *shape[1:])
        return parts.permute(*order, *last).reshape(images, *sizes, *inner)[cut]

    return computed(call, forward)


def _block_and_borders(call: ReadOperator) -> tuple[list[int], list[int]]:
    block, borders = call.integers(1), call.integers(2)
    fits = 0 < len(block) < call.operand(0).type.rank and len(borders) == 2 * len(block)
    if not fits or min(block) < 1 or min(borders) < 0:
        raise call.refuse(
            "a block and two borders for each axis behind that of the batch", f"{block}, {borders}"
        )
    return block, borders


def fill(call: ReadOperator) -> FloatCall:
    """Reads a tensor of one number."""
    shape = call.result.shape
    if call.constant(1).type.elements != 1:
        raise call.refuse("there is one element", repr(call.operand(1)))
    return computed(call, lambda x: x.reshape(()).expand(shape), operands=(1,))


ROWS: dict[str, Reading] = {
    "FILL": fill,
    "SPACE_TO_BATCH_ND": space_to_batch,
    "BATCH_TO_SPACE_ND": batch_to_space,
    "RESHAPE": reshape,
    "SQUEEZE": reshape,
    "EXPAND_DIMS": reshape,
    "TRANSPOSE": transpose,
    "CONCATENATION": concat,
    "PACK": pack,
    "UNPACK": unpack,
    "SPLIT": split,
    "SPLIT_V": split_v,
    "SLICE": slice_of,
    "STRIDED_SLICE": strided_slice,
    "REVERSE_V2": reverse,
    "PAD": pad,
    "PADV2": pad,
    "GATHER": gather,
    "TILE": tile,
    "SPACE_TO_DEPTH": space_to_depth,
    "DEPTH_TO_SPACE": depth_to_space,
}
"""The readers of this file, by operator name."""
