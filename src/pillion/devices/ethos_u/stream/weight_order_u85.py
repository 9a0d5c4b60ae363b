# SPDX-License-Identifier: Apache-2.0
"""The order of the weights of a U85, which computes on several streams at once and walks to and fro over inputs and
kernels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product

import numpy as np

from pillion.devices.ethos_u.stream.operations import BlockSize, ConvolutionKind, KernelWindow
from pillion.ir.numerics import Int64Array

_INTERLEAVED = 4
"""The adjacent result channels of one stream."""
_LARGEST_PART = 8
"""The largest rows and columns of a kernel part."""
_DEPTHWISE_TAPS = 10
"""The taps to which a part of a depthwise kernel is filled up."""
Tap = tuple[int, int]
_PADDING = (-1, -1)


@lru_cache(maxsize=64)
def u85_weight_positions(
    kind: ConvolutionKind,
    kernel: KernelWindow,
    shape: tuple[int, int, int, int],
    block: BlockSize,
    stream: tuple[int, int],
    sparse: bool,
) -> Int64Array:
    """Returns the index in an array of `shape` of each weight of a stream (its number, and how many there are); -1 for
    padding."""
    results, _, _, depth = shape
    depthwise = kind is ConvolutionKind.DEPTHWISE
    inner = 1 if depthwise else 16 if sparse else 8
    slices = [0] if depthwise else list(range(0, depth, block.slice))
    width = 1 if depthwise else block.together or block.slice
    steps = [0] if depthwise else range(0, block.slice, width)
    full, spare = (_DEPTHWISE_TAPS, block.spare_taps) if depthwise else (_part_taps(kernel, block), 0)
    taps = _kernel_parts(kernel, depthwise, full, spare)
    found = []
    for first in range(0, results, block.depth):
        channels = range(first, min(first + block.depth, results), block.channels)
        for start, part, step in product(slices, taps, steps):
            if start + step >= depth:
                continue
            inputs = np.arange(start + step, start + step + width).reshape(-1, inner)
            for o in channels:
                outputs = o + _stream_channels(block.channels, *stream)
                found.append(_indices(part, inputs, outputs, shape))
        slices.reverse()
    return np.concatenate(found)


def fast_group(kernel: KernelWindow, block: BlockSize, streams: int) -> int:
    """Returns the adjacent weights of one stream where streams alternate."""
    return block.channels * (block.together or block.slice) * _part_taps(kernel, block) // streams


def _part_taps(kernel: KernelWindow, block: BlockSize) -> int:
    """Returns the taps of a convolution that are stored together."""
    return block.part_taps if kernel.part_first else 1


def _stream_channels(count: int, number: int, streams: int) -> Int64Array:
    """Returns the channels of a group that belong to a stream."""
    channels = np.arange(count).reshape(-1, _INTERLEAVED)
    return channels[number::streams].ravel()


def _kernel_parts(kernel: KernelWindow, depthwise: bool, full: int, spare: int) -> list[Int64Array]:
    """Returns the taps of each kernel part, filled up with outside taps."""
    high, wide = (_LARGEST_PART // dilation for dilation in kernel.dilation)
    stride = kernel.stride if depthwise or kernel.part_first else (1, 1)
    parts = []
    for left, top in product(range(0, kernel.width, wide), range(0, kernel.height, high)):
        sides = (min(high, kernel.height - top), min(wide, kernel.width - left))
        taps = [(top + y, left + x) for y, x in _strided_taps(sides, stride)]
        taps += [_PADDING] * (-len(taps) % full)
        groups = [taps[n : n + full] + [_PADDING] * spare for n in range(0, len(taps), full)]
        parts.append(np.array([tap for group in groups for tap in group], np.int64))
    return parts


def _strided_taps(sides: Tap, stride: Tap) -> Iterator[Tap]:
    """Yields the taps of each phase of a stride, to and fro over the columns."""
    for phase_y, phase_x in product(range(stride[0]), range(stride[1])):
        for number, y in enumerate(range(phase_y, sides[0], stride[0])):
            columns = range(phase_x, sides[1], stride[1])
            for x in columns[::-1] if number % 2 else columns:
                yield y, x


def _indices(
    taps: Int64Array, inputs: Int64Array, outputs: Int64Array, shape: tuple[int, int, int, int]
) -> Int64Array:
    """Returns the indices of a group of results, nested by tap, input group, result and input."""
    results, rows, columns, depth = shape
    row, column = (taps[:, axis, None, None, None] for axis in (0, 1))
    i, o = inputs[None, :, None, :], outputs[None, None, :, None]
    inside = (row >= 0) & (o < results) & (i < depth)
    return np.where(inside, ((o * rows + row) * columns + column) * depth + i, -1).ravel()
