# SPDX-License-Identifier: Apache-2.0
"""Decompresses weights in a child process and restores their order."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pillion.devices.ethos_u.stream.operations import BlockSize, ConvolutionKind, Convolve, KernelWindow
from pillion.devices.ethos_u.stream.stream_errors import StreamError, require_valid
from pillion.devices.ethos_u.stream.weight_order_u85 import fast_group, u85_weight_positions
from pillion.host_io.child_process import Child, ChildEnded, ChildTimeoutError, restarting_process
from pillion.ir.numerics import Int64Array
from pillion.ir.types import BYTES, DType

SECONDS = 60.0
"""The time limit of decompression, including the start of the process."""
_SCALE_BYTES = 10
_SCALE_PLACES = ((0, 5), (5, 4), (9, 1), (9, 0))
"""The first byte and the number of bytes of bias, scale, shift and padding, on a U55 or U65."""
_U85_SCALE_PLACES = {
    DType.INT16: ((0, 6), (6, 2), (8, 1), (9, 1)),
    **dict.fromkeys(BYTES, ((0, 4), (4, 4), (8, 1), (9, 1))),
}
"""The first byte and the number of bytes of bias, scale, shift and padding on a U85, by the operand's type."""
_FAST_HEADER = 256
"""The bits before the weights of the fast decoder."""
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


def decode_fast_weights(data: bytes, count: int) -> NDArray[np.int16]:
    """Returns the weights of a stream for U85's fast decoder: behind 32 bytes with a table of 16 weights there are
    indices of 2 or 4 bits, or weights of 8 bits."""
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").astype(np.int64)
    require_valid(bits.size >= _FAST_HEADER, "weights of the fast decoder are cut off", "32 bytes", len(data))
    header = bits[:_FAST_HEADER]
    is_raw, is_small = header[:2]
    width = 8 if is_raw else 2 if is_small else 4
    end = _FAST_HEADER + width * count
    is_whole = end <= bits.size and not bits[end:].any() and not header[2:104].any()
    require_valid(is_whole, "there are more or fewer weights than the kernel has", str(count), len(data))
    codes = bits[_FAST_HEADER:end].reshape(-1, width) @ (1 << np.arange(width))
    if is_raw:
        offset = int(header[104:112] @ (1 << np.arange(8)))
        return ((codes ^ 128) - 128 - ((offset ^ 128) - 128)).astype(np.int16)
    folded = header[112:].reshape(16, 9) @ (1 << np.arange(9))
    return np.where(folded & 1, -(folded >> 1), folded >> 1)[codes].astype(np.int16)


def weights_of(op: Convolve, streams: Sequence[bytes]) -> Int64Array:
    """Returns the weights of a convolution as results, rows, columns and input channels (1 if depthwise)."""
    depth = 1 if op.product is ConvolutionKind.DEPTHWISE else op.x.shape[2]
    shape = (op.y.shape[2], op.kernel.height, op.kernel.width, depth)
    weights = np.zeros(int(np.prod(shape)), np.int64)
    for order, values in _ordered_values(op, shape, streams):
        weights[order[order >= 0]] = values[order >= 0]
    return weights.reshape(shape)


def _ordered_values(
    op: Convolve, shape: tuple[int, int, int, int], streams: Sequence[bytes]
) -> Iterator[tuple[Int64Array, NDArray[np.int16]]]:
    """Yields positions and weights of each stream."""
    if not op.form.is_u85:
        orders = [weight_positions(op.product, op.kernel, shape, op.block, op.x.dtype.size_bytes)]
    else:
        form = (op.product, op.kernel, shape, op.block)
        orders = [
            u85_weight_positions(*form, (number, len(streams)), op.form.sparse)
            for number in range(len(streams))
        ]
    if op.form.fast:
        together = fast_group(op.kernel, op.block, len(streams))
        joined = np.stack([order.reshape(-1, together) for order in orders], axis=1).ravel()
        require_valid(not any(streams[1:]), "weights of the fast decoder", "they are one stream")
        yield joined, _checked_values(decode_fast_weights(streams[0], joined.size), joined)
        return
    for order, data in zip(orders, streams, strict=True):
        yield order, _checked_values(decompress_weights(data), order)


def _checked_values(unpacked: NDArray[np.int16], order: Int64Array) -> NDArray[np.int16]:
    """Returns the weights of a stream; raises unless all others are padding."""
    require_valid(
        unpacked.size >= order.size and not unpacked[order.size :].any(),
        "there are more or fewer weights than the kernel has",
        str(order.size),
        unpacked.size,
    )
    unpacked = unpacked[: order.size]
    require_valid(not unpacked[order < 0].any(), "a weight lies outside the kernel", "there are zeros")
    return unpacked


@lru_cache(maxsize=64)
def weight_positions(
    kind: ConvolutionKind,
    kernel: KernelWindow,
    shape: tuple[int, int, int, int],
    block: BlockSize,
    bytes_each: int,
) -> Int64Array:
    """Returns the index in an array of `shape` of each weight of U55 and U65, in stream order; -1 for padding."""
    results, rows, columns, depth = shape
    depthwise = kind is ConvolutionKind.DEPTHWISE
    deep = block.slice
    high, wide = _GROUP // kernel.dilation[0], _GROUP // kernel.dilation[1]
    positions = []
    for first, z in product(range(0, results, block.depth), range(0, 1 if depthwise else depth, deep)):
        output_starts = range(first, min(first + block.depth, results), block.channels)
        for top, left in product(range(0, rows, high), range(0, columns, wide)):
            taps = _kernel_part_taps(
                kernel, depthwise, bytes_each, (top, min(top + high, rows)), (left, min(left + wide, columns))
            )
            groups = range(
                z, z + min(deep, -(-(depth - z) // _GROUP) * _GROUP if kernel.part_first else deep), _GROUP
            )
            if depthwise:
                positions += [
                    _group_weight_indices(o, taps, [0], shape, block.channels, 1) for o in output_starts
                ]
            elif kernel.part_first:
                positions += [
                    _group_weight_indices(o, taps, [i], shape, block.channels)
                    for i in groups
                    for o in output_starts
                ]
            else:
                positions += [
                    _group_weight_indices(o, taps, groups, shape, block.channels) for o in output_starts
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


def scales_of(op: Convolve, data: bytes) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Returns bias, scale and shift of each channel; the bytes after them are padding and must be 0."""
    channels = op.y.shape[2]
    size = _SCALE_BYTES * channels
    require_valid(
        len(data) >= size and not any(data[size:]),
        "there are more or fewer scales than channels",
        f"{size} bytes",
        len(data),
    )
    rows = np.frombuffer(data[:size], np.uint8).reshape(channels, _SCALE_BYTES).astype(np.int64)
    require_valid(
        op.x.dtype in _U85_SCALE_PLACES,
        "operands of a layer have a type that it does not read",
        ", ".join(dtype.value for dtype in _U85_SCALE_PLACES),
        op.x.dtype.value,
    )
    places = _U85_SCALE_PLACES[op.x.dtype] if op.form.is_u85 else _SCALE_PLACES
    bias, scale, shift, rest = (
        sum((rows[:, first + n] << 8 * n for n in range(count)), np.zeros(channels, np.int64))
        for first, count in places
    )
    require_valid(
        not (shift > 63).any() and not rest.any(),
        "reserved bits of a scale are set",
        "a shift of 6 bits",
        int(shift.max()),
    )
    sign = 8 * places[0][1]
    return np.where(bias >> (sign - 1), bias - (1 << sign), bias), scale, shift
