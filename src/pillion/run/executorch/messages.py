# SPDX-License-Identifier: Apache-2.0
"""What goes between us and the process of the runtime: a length, facts in JSON, and the bytes of a program or of arrays. Nothing of
it is executed by whoever reads it, so a runtime that a file has taken over can answer nonsense at most."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pillion.ir.types import Array, DType, Shape
from pillion.outside.declared import build, parse, plain

_LENGTH = struct.Struct("=I")
_MOST_WORDS = 1 << 20
Receive = Callable[[int], bytes]
"""Gives so many bytes."""


@dataclass(frozen=True)
class Shaped:
    """What an array is."""

    dtype: DType
    shape: Shape

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.size_bytes


@dataclass(frozen=True)
class Message:
    """The facts of a question (a program, its inputs, how long it may take) or of an answer (its outputs, or the four parts of an error)."""

    program: int = 0
    arrays: tuple[Shaped, ...] = ()
    error: Mapping[str, str] | None = None
    seconds: float = 0.0


def write(
    program: bytes = b"",
    arrays: Sequence[Array] = (),
    error: Mapping[str, str] | None = None,
    seconds: float = 0.0,
) -> bytes:
    """All bytes of a message."""
    shaped = tuple(Shaped(DType(array.dtype.name), array.shape) for array in arrays)
    words = json.dumps(plain(Message(len(program), shaped, error, seconds))).encode()
    data = (np.ascontiguousarray(array).tobytes() for array in arrays)
    return b"".join([_LENGTH.pack(len(words)), words, program, *data])


def read(receive: Receive) -> tuple[Message, bytes, list[Array]]:
    """A message, the program in it, and the arrays. ValueErrors say what is wrong with one."""
    (length,) = _LENGTH.unpack(receive(_LENGTH.size))
    if length > _MOST_WORDS:
        raise ValueError(f"its facts have {length} bytes")
    message = build(Message, parse(receive(length).decode()))
    program = receive(message.program)
    arrays = [np.frombuffer(receive(one.bytes), one.dtype.numpy).reshape(one.shape) for one in message.arrays]
    return message, program, arrays
