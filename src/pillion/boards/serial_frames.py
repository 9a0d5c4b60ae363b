# SPDX-License-Identifier: Apache-2.0
"""Frames on a line between this computer and a board, as `serial/main.c` of a project speaks them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

FLAG, ESCAPE, FLIP = 0x7E, 0x7D, 0x20
MOST_BYTES = 1 << 17
"""The largest frame on the line; anything longer is noise."""
_CRC = struct.Struct("<I")


class FrameType(IntEnum):
    """The types of requests, of the frame that a board sends when it starts, and of a refusal."""

    HELLO = 1
    INPUT = 2
    RUN = 3
    OUTPUT = 4
    PROFILE = 5
    SELFTEST = 6
    STARTED = 0x7F
    ERROR = 0xFF


ANSWER = 0x80
"""The bit that turns a request's type into its answer's type."""


@dataclass(frozen=True)
class Frame:
    """A frame: its type, the number that its answer repeats, and its contents."""

    type: int
    number: int
    contents: bytes = b""

    def encode(self) -> bytes:
        """Returns the bytes on the line."""
        body = bytes((self.type, self.number)) + self.contents
        body += _CRC.pack(zlib.crc32(body))
        escaped = body.replace(b"\x7d", b"\x7d\x5d").replace(b"\x7e", b"\x7d\x5e")
        return bytes((FLAG,)) + escaped + bytes((FLAG,))


class FrameReader:
    """Finds frames among received bytes, whatever noise is between them."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self.bytes_received = 0
        self.frames_damaged = 0

    def feed(self, data: bytes) -> Iterator[Frame | None]:
        """Yields the frames that end within the data, and None for each damaged one."""
        self.bytes_received += len(data)
        self._pending += data
        *parts, rest = bytes(self._pending).split(bytes((FLAG,)))
        self._pending = bytearray(rest if len(rest) <= MOST_BYTES else b"")
        for part in parts:
            if part:
                frame = _decode(part)
                self.frames_damaged += frame is None
                yield frame


def _decode(escaped: bytes) -> Frame | None:
    """Returns the frame between two flags, or None if it is damaged."""
    pieces = escaped.split(bytes((ESCAPE,)))
    if any(not piece for piece in pieces[1:]):
        return None
    body = pieces[0] + b"".join(bytes((piece[0] ^ FLIP,)) + piece[1:] for piece in pieces[1:])
    if len(body) < 6 or zlib.crc32(body[:-4]) != _CRC.unpack(body[-4:])[0]:
        return None
    return Frame(body[0], body[1], body[2:-4])
