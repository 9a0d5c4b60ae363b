# SPDX-License-Identifier: Apache-2.0
"""Compressed weights: decompressed in a child process, and brought back from the order in which the NPU reads them."""

from __future__ import annotations

import struct
import sys
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pillion.devices.ethos_u.accelerators import Accelerator
from pillion.devices.ethos_u.stream.errors import wrong
from pillion.devices.ethos_u.stream.operations import Convolve, Kernel, Product
from pillion.ir.numerics import Int64Array
from pillion.outside.child import Child, ChildEnded, ChildLate

SECONDS = 60.0
"""The longest time that decompression may take, and starting the process for it."""
_SCALE_BYTES = 10
_GROUP = 8
"""The input channels whose weights lie together; the rows and columns of a kernel that are read at once."""
_TAPS_TOGETHER = 4
_child: list[Child] = []


def unpack(data: bytes, at: int) -> NDArray[np.int16]:
    """Decompresses the weights of one operation."""
    return _decoded(data, at)


@lru_cache(maxsize=512)
def _decoded(data: bytes, at: int) -> NDArray[np.int16]:
    if not _child:
        _child.append(Child([sys.executable, "-I", str(Path(__file__).with_name("unpack_weights.py"))]))
    child = _child[0]
    try:
        child.send(struct.pack("<I", len(data)) + data, SECONDS)
        (count,) = struct.unpack("<I", child.receive(4, SECONDS))
        return np.frombuffer(child.receive(2 * count, SECONDS), "<i2")
    except (ChildEnded, ChildLate) as error:
        child.close()
        _child.clear()
        ended = "it took too long" if isinstance(error, ChildLate) else str(error)
        raise wrong(
            "weights cannot be decompressed", "what the compiler packed", f"{ended}, word {at}"
        ) from None


def weights_of(op: Convolve, data: bytes, accelerator: Accelerator) -> Int64Array:
    """Gives the weights of a convolution as results, rows, columns and input channels; those of a depthwise one have one
    input channel."""
    depth = 1 if op.product is Product.DEPTHWISE else op.x.shape[2]
    shape = (op.y.shape[2], op.kernel.height, op.kernel.width, depth)
    found = unpack(data, op.at)
    order = places(op.product, op.kernel, shape, op.block.depth, op.x.dtype.size_bytes, accelerator)
    if found.size < order.size or found[order.size :].any():
        raise wrong(
            "there are more or fewer weights than the kernel has",
            f"{order.size}",
            f"{found.size}, word {op.at}",
        )
    found = found[: order.size]
    if found[order < 0].any():
        raise wrong("a weight lies outside the kernel", "there are zeros", f"word {op.at}")
    weights = np.zeros(int(np.prod(shape)), np.int64)
    weights[order[order >= 0]] = found[order >= 0]
    return weights.reshape(shape)


@lru_cache(maxsize=64)
def places(
    kind: Product,
    kernel: Kernel,
    shape: tuple[int, int, int, int],
    block: int,
    bytes_each: int,
    accelerator: Accelerator,
) -> Int64Array:
    """Gives for each weight, in the order of the stream, where it belongs in an array of `shape`; -1 for what fills up."""
    results, rows, columns, depth = shape
    depthwise = kind is Product.DEPTHWISE
    deep = 16 if kernel.part_first or bytes_each == 2 else 32
    high, wide = _GROUP // kernel.dilation[0], _GROUP // kernel.dilation[1]
    found = []
    for first, z in product(range(0, results, block), range(0, 1 if depthwise else depth, deep)):
        ends = range(first, min(first + block, results), accelerator.channels)
        for top, left in product(range(0, rows, high), range(0, columns, wide)):
            taps = _taps(
                kernel, depthwise, bytes_each, (top, min(top + high, rows)), (left, min(left + wide, columns))
            )
            groups = range(
                z, z + min(deep, -(-(depth - z) // _GROUP) * _GROUP if kernel.part_first else deep), _GROUP
            )
            if depthwise:
                found += [_part(o, taps, [0], shape, accelerator.channels, 1) for o in ends]
            elif kernel.part_first:
                found += [_part(o, taps, [i], shape, accelerator.channels) for i in groups for o in ends]
            else:
                found += [_part(o, taps, groups, shape, accelerator.channels) for o in ends]
    return np.concatenate(found)


def _taps(
    kernel: Kernel, depthwise: bool, bytes_each: int, rows: tuple[int, int], columns: tuple[int, int]
) -> list[tuple[int, int]]:
    """The taps of a part of the kernel, row by row, filled up to a multiple of what is read together by taps outside."""
    taps = list(product(range(*rows), range(*columns)))
    together = _TAPS_TOGETHER if depthwise else 1
    if kernel.part_first:
        together = 2 if bytes_each == 2 else _TAPS_TOGETHER
    return taps + [(-1, -1)] * (-len(taps) % together)


def _part(
    first: int,
    taps: list[tuple[int, int]],
    groups: range | list[int],
    shape: tuple[int, int, int, int],
    channels: int,
    together: int = _GROUP,
) -> Int64Array:
    """The places of a group of results: for each tap and each group of inputs, all results, for each of these all inputs."""
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


def scales_of(data: bytes, channels: int, at: int) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Gives bias, scale and shift of each channel. What follows them fills up, and is 0."""
    wanted = _SCALE_BYTES * channels
    if len(data) < wanted or any(data[wanted:]):
        raise wrong(
            "there are more or fewer scales than channels", f"{wanted} bytes", f"{len(data)}, word {at}"
        )
    rows = np.frombuffer(data[:wanted], np.uint8).reshape(channels, _SCALE_BYTES).astype(np.int64)
    bias = sum(rows[:, n] << 8 * n for n in range(5))
    scale = sum(rows[:, 5 + n] << 8 * n for n in range(4))
    if (rows[:, 9] > 63).any():
        raise wrong(
            "reserved bits of a scale are set", "a shift of 6 bits", f"{int(rows[:, 9].max())}, word {at}"
        )
    return np.where(bias >> 39, bias - (1 << 40), bias), np.asarray(scale), rows[:, 9]
