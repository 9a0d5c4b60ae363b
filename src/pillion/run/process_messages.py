# SPDX-License-Identifier: Apache-2.0
"""The messages to and from a runtime's process: a length, facts in JSON, and the bytes of arrays. The
reader executes nothing, so a compromised runtime can only answer nonsense."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pillion.host_io.json_dataclasses import as_plain_data, object_from_json, parse_strict_json
from pillion.ir.types import Array, DType, Shape

_LENGTH = struct.Struct("=I")
_MOST_WORDS = 1 << 20
SENDABLE = frozenset(member.value for member in DType)
"""Element types of arrays in messages; other arrays are sent as bytes."""
Facts = Mapping[str, Any]


@dataclass(frozen=True)
class ArrayDescription:
    """The description of an array and its dim order, which the runtime uses."""

    dtype: DType
    shape: Shape
    order: tuple[int, ...]

    def __post_init__(self) -> None:
        if sorted(self.order) != list(range(len(self.shape))) or any(size < 0 for size in self.shape):
            raise ValueError(f"an array of shape {self.shape}, axes {self.order}")

    @property
    def bytes(self) -> int:
        """The size of the array in bytes."""
        return math.prod(self.shape) * self.dtype.size_bytes


def as_sendable(array: Array) -> Array:
    """Returns an array of an element type that can be sent: itself, or its bytes."""
    return array if array.dtype.name in SENDABLE else np.frombuffer(array.tobytes(), np.uint8)


def write_message(arrays: Sequence[Array] = (), **facts: Any) -> bytes:
    """Returns the bytes of a message."""
    described = [
        ArrayDescription(DType(array.dtype.name), array.shape, _dim_order(array)) for array in arrays
    ]
    words = json.dumps({"arrays": as_plain_data(described), **facts}).encode()
    data = (array.transpose(spec.order).tobytes() for array, spec in zip(arrays, described, strict=True))
    return b"".join([_LENGTH.pack(len(words)), words, *data])


def _dim_order(array: Array) -> tuple[int, ...]:
    return tuple(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))


def read_message(receive: Callable[[int], bytes]) -> tuple[Facts, list[Array]]:
    """Returns the facts and the arrays of a message; raises ValueError if it is malformed. `receive` returns a number
    of bytes."""
    (length,) = _LENGTH.unpack(receive(_LENGTH.size))
    if length > _MOST_WORDS:
        raise ValueError(f"its facts have {length} bytes")
    facts = parse_strict_json(receive(length).decode())
    if not isinstance(facts, dict):
        raise ValueError("its facts are no object")
    described = object_from_json(tuple[ArrayDescription, ...], facts.pop("arrays", None), "arrays")
    return facts, [_array_from_bytes(spec, receive(spec.bytes)) for spec in described]


def _array_from_bytes(shaped: ArrayDescription, data: bytes) -> Array:
    in_memory = np.frombuffer(data, shaped.dtype.numpy).reshape([shaped.shape[axis] for axis in shaped.order])
    return in_memory.transpose(np.argsort(shaped.order))
