# SPDX-License-Identifier: Apache-2.0
"""The messages to and from a runtime's process: a length, JSON, and the bytes of a program or of arrays. The
reader executes nothing, so a compromised runtime can only answer nonsense."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pillion.host_io.json_dataclasses import as_plain_data, build, parse_strict_json
from pillion.ir.types import Array, DType, Shape

_LENGTH = struct.Struct("=I")
_MOST_WORDS = 1 << 20
Receive = Callable[[int], bytes]
"""Returns this number of bytes."""


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


@dataclass(frozen=True)
class Message:
    """A request (program, inputs, time limit) or an answer (outputs, or the four parts of an error)."""

    program: int = 0
    arrays: tuple[ArrayDescription, ...] = ()
    error: Mapping[str, str] | None = None
    seconds: float = 0.0
    goes_on: bool = False
    """Whether states continue from the previous run of the same program."""
    number: int = 0
    """The id of the program, if several are open."""
    closed: tuple[int, ...] = ()
    """The ids of programs to close."""


def is_sendable_dtype(dtype: str) -> bool:
    """Whether arrays of this element type can be sent; others are sent as bytes."""
    return dtype in {member.value for member in DType}


def as_bytes(array: Array) -> Array:
    """Returns the bytes of an array."""
    return np.frombuffer(array.tobytes(), np.uint8)


def write_message(
    program: bytes = b"",
    arrays: Sequence[Array] = (),
    error: Mapping[str, str] | None = None,
    seconds: float = 0.0,
    goes_on: bool = False,
    number: int = 0,
    closed: Sequence[int] = (),
) -> bytes:
    """Returns the bytes of a message."""
    shaped = tuple(
        ArrayDescription(DType(array.dtype.name), array.shape, _dim_order(array)) for array in arrays
    )
    message = Message(len(program), shaped, error, seconds, goes_on, number, tuple(closed))
    words = json.dumps(as_plain_data(message)).encode()
    data = (array.transpose(spec.order).tobytes() for array, spec in zip(arrays, shaped, strict=True))
    return b"".join([_LENGTH.pack(len(words)), words, program, *data])


def _dim_order(array: Array) -> tuple[int, ...]:
    return tuple(sorted(range(array.ndim), key=lambda axis: -array.strides[axis]))


def read_message(receive: Receive) -> tuple[Message, bytes, list[Array]]:
    """Returns a message, its program and its arrays; raises ValueError if it is malformed."""
    (length,) = _LENGTH.unpack(receive(_LENGTH.size))
    if length > _MOST_WORDS:
        raise ValueError(f"its facts have {length} bytes")
    message = build(Message, parse_strict_json(receive(length).decode()))
    program = receive(message.program)
    return message, program, [_array_from_bytes(spec, receive(spec.bytes)) for spec in message.arrays]


def _array_from_bytes(shaped: ArrayDescription, data: bytes) -> Array:
    in_memory = np.frombuffer(data, shaped.dtype.numpy).reshape([shaped.shape[axis] for axis in shaped.order])
    return in_memory.transpose(np.argsort(shaped.order))
