# SPDX-License-Identifier: Apache-2.0
"""Operators that only move numbers, in PyTorch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from pillion.importers.tflite.geometry import axis_of, strides
from pillion.importers.tflite.model import ReadOperator
from pillion.importers.tflite.operands import with_axes
from pillion.importers.tflite_float.forms import Made, Reading, activation, computed
from pillion.schemas import tflite


def reshape(call: ReadOperator) -> Made:
    """Reads a change of shape, which the result says whole."""
    shape = call.result.shape
    return computed(call, lambda x: x.reshape(shape))


def transpose(call: ReadOperator) -> Made:
    """Reads a transpose."""
    rank = call.operand(0).type.rank
    order = tuple(axis_of(call, axis, rank) for axis in call.integers(1))
    return computed(call, lambda x: x.permute(order))


def concat(call: ReadOperator) -> Made:
    """Reads a concatenation."""
    options, rank = call.options_as(tflite.ConcatenationOptions), call.result.type.rank
    axis, after = axis_of(call, options.axis, rank), activation(call, options.fused_activation)
    return computed(call, lambda *xs: after(torch.cat(xs, axis)), operands=tuple(range(len(call.inputs))))


def pack(call: ReadOperator) -> Made:
    """Reads a stack of tensors along a new axis."""
    axis = axis_of(call, call.options_as(tflite.PackOptions).axis, call.result.type.rank)
    return computed(call, lambda *xs: torch.stack(xs, axis), operands=tuple(range(len(call.inputs))))


def unpack(call: ReadOperator) -> Made:
    """Reads the slices of a tensor along an axis, which goes."""
    axis = axis_of(call, call.options_as(tflite.UnpackOptions).axis, call.operand(0).type.rank)
    return computed(call, lambda x: torch.unbind(x, axis))


def split(call: ReadOperator) -> Made:
    """Reads equal pieces along an axis, which comes first."""
    return _pieces(call, 1, call.integers(0))


def split_v(call: ReadOperator) -> Made:
    """Reads pieces along an axis, which comes last."""
    return _pieces(call, 0, call.integers(2))


def _pieces(call: ReadOperator, operand: int, axes: list[int]) -> Made:
    if len(axes) != 1:
        raise call.refuse("there is one axis", axes)
    axis = axis_of(call, axes[0], call.operand(operand).type.rank)
    sizes = [y.shape[axis] if axis < y.type.rank else 0 for y in call.outputs]
    return computed(call, lambda x: torch.split(x, sizes, axis), operands=(operand,))


def slice_of(call: ReadOperator) -> Made:
    """Reads a slice by its begin; the result says its size."""
    begin, shape = call.integers(1), call.result.shape
    if len(begin) != len(shape) or min(begin, default=0) < 0:
        raise call.refuse("a slice begins somewhere on every axis", begin)
    where = tuple(slice(first, first + size) for first, size in zip(begin, shape, strict=True))
    return computed(call, lambda x: x[where])


def strided_slice(call: ReadOperator) -> Made:
    """Reads a slice with steps; axes that shrink go."""
    options, shape = call.options_as(tflite.StridedSliceOptions), call.result.shape
    found = strides(call, call.operand(0).shape, options)
    where = tuple(
        slice(first, first + (size - 1) * step + 1, step)
        for first, step, size in zip(found.begin, found.step, found.sizes, strict=True)
    )
    return computed(call, lambda x: x[where].reshape(shape))


def reverse(call: ReadOperator) -> Made:
    """Reads elements in reverse order along some axes."""
    rank = call.operand(0).type.rank
    axes = tuple(axis_of(call, axis, rank) for axis in call.integers(1))
    return computed(call, lambda x: torch.flip(x, axes))


def pad(call: ReadOperator) -> Made:
    """Reads a pad with zeros, or with the number that is the last operand."""
    rank, sizes = call.operand(0).type.rank, call.constant(1).constant
    if sizes.shape != (rank, 2) or sizes.min(initial=0) < 0:
        raise call.refuse("there is a padding before and after each axis", sizes.tolist())
    flat = [int(n) for pair in sizes[::-1] for n in pair]
    value = float(call.constant(2).constant.reshape(-1)[0]) if call.code == "PADV2" else 0.0
    return computed(call, lambda x: F.pad(x, flat, value=value))


def gather(call: ReadOperator) -> Made:
    """Reads slices by their numbers."""
    options, x, numbers = call.options_as(tflite.GatherOptions), call.operand(0), call.operand(1)
    axis, shape = axis_of(call, options.axis, x.type.rank), call.result.shape
    if options.batch_dims:
        raise call.refuse("there are no batch axes", options.batch_dims)
    if numbers.is_constant and not 0 <= numbers.constant.min() <= numbers.constant.max() < x.shape[axis]:
        raise call.refuse(f"numbers of slices are from 0 to {x.shape[axis] - 1}", repr(numbers))

    def forward(x: Tensor, numbers: Tensor) -> Tensor:
        return torch.index_select(x, axis, numbers.reshape(-1)).reshape(shape)

    return computed(call, forward, operands=(0, 1))


def tile(call: ReadOperator) -> Made:
    """Reads a tensor repeated along its axes."""
    counts = call.integers(1)
    return computed(call, lambda x: x.repeat(counts))


def space_to_depth(call: ReadOperator) -> Made:
    """Reads blocks of pixels that become channels."""
    (n, height, width, channels), y = (
        with_axes(call, call.operand(0), 4).shape,
        with_axes(call, call.result, 4),
    )
    block = height // y.shape[1]

    def forward(x: Tensor) -> Tensor:
        parts = x.reshape(n, height // block, block, width // block, block, channels)
        return parts.permute(0, 1, 3, 2, 4, 5).reshape(y.shape)

    return computed(call, forward)


def depth_to_space(call: ReadOperator) -> Made:
    """Reads channels that become blocks of pixels."""
    (n, height, width, channels), y = (
        with_axes(call, call.operand(0), 4).shape,
        with_axes(call, call.result, 4),
    )
    block = y.shape[1] // height

    def forward(x: Tensor) -> Tensor:
        parts = x.reshape(n, height, width, block, block, channels // block**2)
        return parts.permute(0, 1, 3, 2, 4, 5).reshape(y.shape)

    return computed(call, forward)


ROWS: dict[str, Reading] = {
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
"""The readings of this file, by the operators' names."""
