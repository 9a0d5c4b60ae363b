# SPDX-License-Identifier: Apache-2.0
"""Decompresses weights in a child process and restores their order."""

from __future__ import annotations

import struct
import sys
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pillion.devices.ethos_u.accelerators import Accelerator
from pillion.devices.ethos_u.stream.operations import ConvolutionKind, Convolve, KernelWindow
from pillion.devices.ethos_u.stream.stream_errors import StreamError, require_valid
from pillion.host_io.child_process import Child, ChildEnded, ChildTimeoutError, restarting_process
from pillion.ir.numerics import Int64Array

SECONDS = 60.0
"""The time limit of decompression, including the start of the process."""
_SCALE_BYTES = 10
_GROUP = 8
"""The input channels whose weights are adjacent; also the largest rows and columns of a kernel part."""
_TAPS_TOGETHER = 4
_unpacker = restarting_process(
    lambda: Child([sys.executable, "-I", str(Path(__file__).with_name("unpack_weights.py"))])
)


@lru_cache(maxsize=512)
def decompress_weights(data: bytes) -> NDArray[np.int16]:
    """Returns the decompressed weights of one operation."""
    child = _unpacker()
    try:
        child.send(struct.pack("<I", len(data)) + data, SECONDS)
        (count,) = struct.unpack("<I", child.receive(4, SECONDS))
        return np.frombuffer(child.receive(2 * count, SECONDS), "<i2")
    except (ChildEnded, ChildTimeoutError) as error:
        child.close()
        ended = "it took too long" if isinstance(error, ChildTimeoutError) else str(error)
        raise StreamError("weights cannot be decompressed", "what the compiler packed", ended) from None


def weights_of(op: Convolve, data: bytes, accelerator: Accelerator) -> Int64Array:
    """Returns the weights of a convolution as results, rows, columns and input channels (1 if depthwise)."""
    depth = 1 if op.product is ConvolutionKind.DEPTHWISE else op.x.shape[2]
    shape = (op.y.shape[2], op.kernel.height, op.kernel.width, depth)
    unpacked = decompress_weights(data)
    order = weight_positions(op.product, op.kernel, shape, op.block.depth, op.x.dtype.size_bytes, accelerator)
    require_valid(
        unpacked.size >= order.size and not unpacked[order.size :].any(),
        "there are more or fewer weights than the kernel has",
        str(order.size),
        unpacked.size,
    )
    unpacked = unpacked[: order.size]
    require_valid(not unpacked[order < 0].any(), "a weight lies outside the kernel", "there are zeros")
    weights = np.zeros(int(np.prod(shape)), np.int64)
    weights[order[order >= 0]] = unpacked[order >= 0]
    return weights.reshape(shape)


@lru_cache(maxsize=64)
def weight_positions(
    kind: ConvolutionKind,
    kernel: KernelWindow,
    shape: tuple[int, int, int, int],
    block: int,
    bytes_each: int,
    accelerator: Accelerator,
) -> Int64Array:
    """Returns the index in an array of `shape` of each weight, in stream order; -1 for padding."""
    results, rows, columns, depth = shape
    depthwise = kind is ConvolutionKind.DEPTHWISE
    deep = kernel.slice_channels(bytes_each)
    high, wide = _GROUP // kernel.dilation[0], _GROUP // kernel.dilation[1]
    positions = []
    for first, z in product(range(0, results, block), range(0, 1 if depthwise else depth, deep)):
        output_starts = range(first, min(first + block, results), accelerator.channels)
        for top, left in product(range(0, rows, high), range(0, columns, wide)):
            taps = _kernel_part_taps(
                kernel, depthwise, bytes_each, (top, min(top + high, rows)), (left, min(left + wide, columns))
            )
            groups = range(
                z, z + min(deep, -(-(depth - z) // _GROUP) * _GROUP if kernel.part_first else deep), _GROUP
            )
            if depthwise:
                positions += [
                    _group_weight_indices(o, taps, [0], shape, accelerator.channels, 1) for o in output_starts
                ]
            elif kernel.part_first:
                positions += [
                    _group_weight_indices(o, taps, [i], shape, accelerator.channels)
                    for i in groups
                    for o in output_starts
                ]
            else:
                positions += [
                    _group_weight_indices(o, taps, groups, shape, accelerator.channels) for o in output_starts
                ]
    return np.concatenate(positions)


def _kernel_part_taps(
    kernel: KernelWindow, depthwise: bool, bytes_each: int, rows: tuple[int, int], columns: tuple[int, int]
) -> list[tuple[int, int]]:
    """Returns the taps of a kernel part, row by row, padded with outside taps to a multiple of the taps that
    are read together."""
    taps = list(product(range(*rows), range(*columns)))
    together = _TAPS_TOGETHER if depthwise else 1
    if kernel.part_first:
        together = 2 if bytes_each == 2 else _TAPS_TOGETHER
    return taps + [(-1, -1)] * (-len(taps) % together)


def _group_weight_indices(
    first: int,
    taps: list[tuple[int, int]],
    groups: range | list[int],
    shape: tuple[int, int, int, int],
    channels: int,
    together: int = _GROUP,
) -> Int64Array:
    """Returns the indices of a group of results, nested by tap, input group, result and input."""
    results, rows, columns, depth = shape
    tap = np.array(taps, np.int64)
    o = first + np.arange(channels)
    i = np.array(groups, np.int64)[:, None] + np.arange(together)
    inside = (
        (tap[:, 0, None, None, None] >= 0)
        & (o[None, None, :, None] < results)
        & (i[None, :, None, :] < depth)
    )
    at = o[None, None, :, None] * rows + tap[:, 0, None, None, None]
    at = (at * columns + tap[:, 1, None, None, None]) * depth + i[None, :, None, :]
    return np.where(inside, at, -1).reshape(-1)


def scales_of(data: bytes, channels: int) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Returns bias, scale and shift of each channel; the bytes after them are padding and must be 0."""
    size = _SCALE_BYTES * channels
    require_valid(
        len(data) >= size and not any(data[size:]),
        "there are more or fewer scales than channels",
        f"{size} bytes",
        len(data),
    )
    rows = np.frombuffer(data[:size], np.uint8).reshape(channels, _SCALE_BYTES).astype(np.int64)
    bias = sum(rows[:, n] << 8 * n for n in range(5))
    scale = sum(rows[:, 5 + n] << 8 * n for n in range(4))
    require_valid(
        not (rows[:, 9] > 63).any(),
        "reserved bits of a scale are set",
        "a shift of 6 bits",
        int(rows[:, 9].max()),
    )
    return np.where(bias >> 39, bias - (1 << 40), bias), np.asarray(scale), rows[:, 9]
