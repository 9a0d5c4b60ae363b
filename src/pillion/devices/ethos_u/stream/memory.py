# SPDX-License-Identifier: Apache-2.0
"""The memory of a command stream. Every access is checked: it lies inside its region, reads only written
bytes, and never writes constants."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pillion.devices.ethos_u.stream.operations import FeatureMap, Range, TensorLayout
from pillion.devices.ethos_u.stream.stream_errors import invalid_stream_error
from pillion.ir.numerics import Int64Array
from pillion.ir.types import Array

Bytes = NDArray[np.uint8]
CONSTANTS, SCRATCH, FAST = 0, 1, 2
"""The regions: constants (weights, tables, numbers), activations, and the buffer close to the NPU."""
_BRICK = 16


class StreamMemory:
    """The regions with their bytes, and which bytes are defined. Constants are read-only."""

    def __init__(self, constants: bytes, sizes: Mapping[int, int]) -> None:
        constant_bytes = np.frombuffer(constants, np.uint8)
        self._bytes: dict[int, Bytes] = {CONSTANTS: constant_bytes}
        self._defined: dict[int, NDArray[np.bool_]] = {CONSTANTS: np.ones(constant_bytes.size, bool)}
        for region, size in sizes.items():
            self._bytes[region] = np.zeros(size, np.uint8)
            self._defined[region] = np.zeros(size, bool)

    def read(self, where: Range, at: int) -> bytes:
        """Returns consecutive bytes."""
        self._require_accessible(where.region, where.start, where.end, at)
        if not self._defined[where.region][where.start : where.end].all():
            raise _undefined_read_error(where.region, where.start, where.end, at)
        return self._bytes[where.region][where.start : where.end].tobytes()

    def write(self, where: Range, data: bytes, at: int) -> None:
        """Writes consecutive bytes."""
        self._require_accessible(where.region, where.start, where.end, at, writes=True)
        self._bytes[where.region][where.start : where.end] = np.frombuffer(data, np.uint8)
        self._defined[where.region][where.start : where.end] = True

    def copy(self, source: Range, destination: Range, at: int) -> None:
        """Copies bytes. Undefined bytes stay undefined: copies are multiples of 16 bytes, which may extend
        beyond a tensor."""
        self._require_accessible(source.region, source.start, source.end, at)
        self._require_accessible(destination.region, destination.start, destination.end, at, writes=True)
        for storage in (self._bytes, self._defined):
            moved = storage[source.region][source.start : source.end].copy()
            storage[destination.region][destination.start : destination.end] = moved

    def load(self, tensor: FeatureMap, at: int) -> Int64Array:
        """Returns the elements of a tensor as rows, columns and channels."""
        byte_indices = self._byte_addresses(tensor, at)
        if not self._defined[tensor.region][byte_indices].all():
            raise _undefined_read_error(
                tensor.region, int(byte_indices.min()), int(byte_indices.max()) + 1, at
            )
        raw = self._bytes[tensor.region][byte_indices].view(tensor.dtype.numpy.newbyteorder("<"))
        return raw[..., 0].astype(np.int64)

    def store(self, tensor: FeatureMap, values: Array, at: int) -> None:
        """Writes the elements of a tensor."""
        byte_indices = self._byte_addresses(tensor, at, writes=True)
        if values.shape != tensor.shape:
            raise invalid_stream_error(
                "a result has another shape than its place", f"{tensor.shape}", f"{values.shape}, word {at}"
            )
        if np.unique(byte_indices).size != byte_indices.size:
            raise invalid_stream_error(
                "a result is written over itself", "every element has a place of its own", f"word {at}"
            )
        data = np.ascontiguousarray(values, tensor.dtype.numpy.newbyteorder("<"))
        self._bytes[tensor.region][byte_indices] = data.view(np.uint8).reshape(byte_indices.shape)
        self._defined[tensor.region][byte_indices] = True

    def _byte_addresses(self, tensor: FeatureMap, at: int, *, writes: bool = False) -> Int64Array:
        """Returns the address of each byte of each element; raises if the tensor does not fit into its
        region."""
        where, size = tensor_byte_range(tensor), tensor.dtype.size_bytes
        self._require_accessible(where.region, where.start, where.end, at, writes=writes)
        if math.prod(tensor.shape) * size > self._bytes[where.region].size:
            raise invalid_stream_error(
                "a tensor is larger than its region",
                f"{self._bytes[where.region].size} bytes",
                f"{tensor.shape}, word {at}",
            )
        if max(map(abs, tensor.strides)) > self._bytes[where.region].size:
            raise invalid_stream_error(
                "a stride is larger than its region",
                f"{self._bytes[where.region].size} bytes",
                f"{tensor.strides}, word {at}",
            )
        return addresses(tensor)[..., None] + np.arange(size)

    def _require_accessible(
        self, region: int, start: int, end: int, at: int, *, writes: bool = False
    ) -> None:
        if region not in self._bytes:
            raise invalid_stream_error(
                "an access to a region that is not there",
                f"regions {sorted(self._bytes)}",
                f"{region} at word {at}",
            )
        size = self._bytes[region].size
        if not 0 <= start <= end <= size:
            raise invalid_stream_error(
                "an access outside its region",
                f"region {region} has {size} bytes",
                f"bytes {start} to {end} at word {at}",
            )
        if writes and region == CONSTANTS:
            raise invalid_stream_error(
                "constants are written", "region 0 is only read", f"bytes {start} to {end} at word {at}"
            )


def _undefined_read_error(region: int, start: int, end: int, at: int) -> Exception:
    return invalid_stream_error(
        "undefined bytes are read",
        "operands are inputs, constants, or results of earlier operations",
        f"region {region}, among bytes {start} to {end} at word {at}",
    )


def tensor_byte_range(tensor: FeatureMap) -> Range:
    """Returns the range from a tensor's first to its last byte, computed from the corners of its tiles,
    independent of its size."""
    rows, columns, channels = tensor.shape
    corners = _addresses(
        tensor,
        _first_and_last_indices(rows, tensor.tile[:2]),
        _first_and_last_indices(columns, tensor.tile[2:]),
        _first_and_last_indices(channels, (_BRICK,)),
    )
    start = int(corners.min())
    return Range(tensor.region, start, int(corners.max()) + tensor.dtype.size_bytes - start)


def _first_and_last_indices(size: int, cuts: tuple[int, ...]) -> Int64Array:
    """Returns the first and the last index of each part."""
    indices = {
        0,
        size - 1,
        *(at for cut in cuts for at in (cut - 1, cut, size // cut * cut - 1) if 0 <= at < size),
    }
    return np.array(sorted(indices), np.int64)


def addresses(tensor: FeatureMap) -> Int64Array:
    """Returns the address of every element of a tensor, as rows, columns and channels."""
    return _addresses(tensor, *(np.arange(size, dtype=np.int64) for size in tensor.shape))


def part_addresses(tensor: FeatureMap, part: tuple[range, range, range]) -> Int64Array:
    """Returns the address of every element of a box of rows, columns and channels."""
    return _addresses(tensor, *(np.array(axis, np.int64) for axis in part))


def _addresses(tensor: FeatureMap, rows: Int64Array, columns: Int64Array, channels: Int64Array) -> Int64Array:
    size, (upper_left, upper_right, left) = tensor.dtype.size_bytes, tensor.tile
    by_row, by_column, by_brick = tensor.strides
    right = columns >= left
    high = np.where(right, upper_right, upper_left)[None, :]
    lower = rows[:, None] >= high
    row = rows[:, None] - np.where(lower, high, 0)
    column = np.broadcast_to(columns - np.where(right, left, 0), lower.shape)
    base = np.array(tensor.bases, np.int64)[lower * 2 + right[None, :]]
    if tensor.layout is TensorLayout.NHWC:
        inside = channels * size
    else:
        inside = channels // _BRICK * by_brick + channels % _BRICK * size
    return np.asarray((base + row * by_row + column * by_column)[..., None] + inside)
