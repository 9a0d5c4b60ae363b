# SPDX-License-Identifier: Apache-2.0
"""The memory of a command stream. Every access is checked: it lies inside its region, reads only written
bytes, and never writes constants."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pillion.devices.ethos_u.stream.operations import CHAIN, FeatureMap, Range, TensorLayout
from pillion.devices.ethos_u.stream.stream_errors import require_valid
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
        self.sums: Int64Array | None = None
        """The sums that the next operation continues."""
        self._bytes: dict[int, Bytes] = {CONSTANTS: constant_bytes}
        self._defined: dict[int, NDArray[np.bool_]] = {CONSTANTS: np.ones(constant_bytes.size, bool)}
        for region, size in sizes.items():
            self._bytes[region] = np.zeros(size, np.uint8)
            self._defined[region] = np.zeros(size, bool)

    def read(self, where: Range) -> bytes:
        """Returns consecutive bytes."""
        here = self._checked_slice(where)
        self._require_defined(where, here)
        return self._bytes[where.region][here].tobytes()

    def write(self, where: Range, data: bytes) -> None:
        """Writes consecutive bytes."""
        here = self._checked_slice(where, writes=True)
        self._bytes[where.region][here] = np.frombuffer(data, np.uint8)
        self._defined[where.region][here] = True

    def copy(self, source: Range, destination: Range) -> None:
        """Copies bytes. Undefined bytes stay undefined: copies are multiples of 16 bytes, which may extend
        beyond a tensor."""
        read, written = self._checked_slice(source), self._checked_slice(destination, writes=True)
        for storage in (self._bytes, self._defined):
            storage[destination.region][written] = storage[source.region][read].copy()

    def load(self, tensor: FeatureMap) -> Int64Array:
        """Returns the elements of a tensor as rows, columns and channels."""
        byte_indices = self._byte_addresses(tensor)
        self._require_defined(tensor_byte_range(tensor), byte_indices)
        raw = self._bytes[tensor.region][byte_indices].view(tensor.dtype.numpy.newbyteorder("<"))
        return raw[..., 0].astype(np.int64)

    def store(self, tensor: FeatureMap, values: Array) -> None:
        """Writes the elements of a tensor."""
        if tensor.region <= CHAIN:
            size = math.prod(tensor.shape) * tensor.dtype.size_bytes
            self._bytes[tensor.region] = np.zeros(size, np.uint8)
            self._defined[tensor.region] = np.zeros(size, bool)
        byte_indices = self._byte_addresses(tensor, writes=True)
        shape = tensor.shape
        require_valid(
            values.shape == shape, "a result has another shape than its place", str(shape), values.shape
        )
        is_apart = np.unique(byte_indices).size == byte_indices.size
        require_valid(is_apart, "a result is written over itself", "every element has a place of its own")
        data = np.ascontiguousarray(values, tensor.dtype.numpy.newbyteorder("<"))
        self._bytes[tensor.region][byte_indices] = data.view(np.uint8).reshape(byte_indices.shape)
        self._defined[tensor.region][byte_indices] = True

    def _byte_addresses(self, tensor: FeatureMap, *, writes: bool = False) -> Int64Array:
        """Returns the address of each byte of each element; raises if the tensor does not fit into its
        region."""
        self._checked_slice(tensor_byte_range(tensor), writes=writes)
        most, size = self._bytes[tensor.region].size, tensor.dtype.size_bytes
        fits = math.prod(tensor.shape) * size <= most
        require_valid(fits, "a tensor is larger than its region", f"{most} bytes", tensor.shape)
        used = (abs(step) for step, size in zip(tensor.strides, tensor.stored_shape, strict=True) if size > 1)
        fits = max(used, default=0) <= most
        require_valid(fits, "a stride is larger than its region", f"{most} bytes", tensor.strides)
        return element_addresses(tensor)[..., None] + np.arange(size)

    def _checked_slice(self, where: Range, *, writes: bool = False) -> slice:
        """Returns the place of bytes in their region; raises unless they may be accessed."""
        known, here = where.region in self._bytes, f"bytes {where.start} to {where.end}"
        require_valid(
            known, "an access to a region that is not there", f"regions {sorted(self._bytes)}", where.region
        )
        size = self._bytes[where.region].size
        inside, rule = 0 <= where.start <= where.end <= size, f"region {where.region} has {size} bytes"
        require_valid(inside, "an access outside its region", rule, here)
        is_allowed = not writes or where.region != CONSTANTS
        require_valid(is_allowed, "constants are written", "region 0 is only read", here)
        return slice(where.start, where.end)

    def _require_defined(self, where: Range, indices: slice | Int64Array) -> None:
        rule = "operands are inputs, constants, or results of earlier operations"
        here = f"region {where.region}, among bytes {where.start} to {where.end}"
        require_valid(self._defined[where.region][indices].all(), "undefined bytes are read", rule, here)


def tensor_byte_range(tensor: FeatureMap) -> Range:
    """Returns the range from a tensor's first to its last byte, computed from the corners of its tiles,
    independent of its size."""
    rows, columns, channels = tensor.stored_shape
    corners = _element_addresses(
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


def element_addresses(tensor: FeatureMap) -> Int64Array:
    """Returns the address of every element of a tensor, as rows, columns and channels."""
    return _operation_addresses(tensor, [np.arange(size, dtype=np.int64) for size in tensor.shape])


def part_addresses(tensor: FeatureMap, part: tuple[range, range, range]) -> Int64Array:
    """Returns the address of every element of a box of rows, columns and channels."""
    return _operation_addresses(tensor, [np.array(axis, np.int64) for axis in part])


def _operation_addresses(tensor: FeatureMap, indices: list[Int64Array]) -> Int64Array:
    """Returns the addresses of elements by the axes of the operation."""
    if tensor.flipped is not None:
        indices[tensor.flipped] = tensor.shape[tensor.flipped] - 1 - indices[tensor.flipped]
    stored = _element_addresses(tensor, *(indices[axis] for axis in tensor.order))
    return stored.transpose(np.argsort(tensor.order))


def _element_addresses(
    tensor: FeatureMap, rows: Int64Array, columns: Int64Array, channels: Int64Array
) -> Int64Array:
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
