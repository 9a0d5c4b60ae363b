# SPDX-License-Identifier: Apache-2.0
"""Pillion's own record in a program, as named data at the end of the file that a runtime never reads:

0   8 bytes   mark and version
8   u32       CRC-32 of the file before the record
12  u32       CRC-32 of the head and the graph
16  u32       size of the head
20            the head as readable JSON, then the graph as compressed JSON"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass

from pillion.schemas.flatbuffer import MalformedError

MARK = b"pillion\1"
_HEAD = struct.Struct("<8s3I")
_LARGEST_RATIO, _ALWAYS_ALLOWED = 64, 1 << 16
"""The largest expansion of a compressed graph: real ones expand by 5 to 15, hostile ones by 1000."""


@dataclass(frozen=True)
class ProgramRecord:
    """A record without the parts that depend on its file."""

    head: bytes
    graph: bytes
    """The compressed graph."""

    @property
    def size(self) -> int:
        """The size of the record in bytes."""
        return _HEAD.size + len(self.head) + len(self.graph)

    def sealed(self, before: bytes) -> bytes:
        """Returns the record's bytes for the end of a file that begins with `before`."""
        behind = self.head + self.graph
        return _HEAD.pack(MARK, zlib.crc32(before), zlib.crc32(behind), len(self.head)) + behind


@dataclass(frozen=True)
class OpenedRecord:
    """A record read from a file."""

    core: str
    runtime: str
    model: str
    graph: bytes
    is_whole: bool
    """Whether the file before the record is unchanged."""


def compose_record(head: dict[str, str], graph: bytes) -> ProgramRecord:
    """Returns a record of facts and a graph."""
    return ProgramRecord(json.dumps(head).encode(), zlib.compress(graph, 9))


def open_record(raw: bytes, before: memoryview) -> OpenedRecord | None:
    """Returns the record in these bytes; None if they are no record of this version."""
    if not raw.startswith(MARK):
        return None
    if len(raw) < _HEAD.size:
        raise MalformedError("its record is cut off")
    _, of_file, of_record, length = _HEAD.unpack_from(raw)
    behind = raw[_HEAD.size :]
    if zlib.crc32(behind) != of_record or length > len(behind):
        raise MalformedError("its record is damaged")
    core, runtime, model = _parse_facts(behind[:length])
    is_whole = zlib.crc32(before) == of_file
    return OpenedRecord(core, runtime, model, _decompress(behind[length:]), is_whole)


def _parse_facts(raw: bytes) -> tuple[str, ...]:
    try:
        head = json.loads(raw)
        return tuple(str(head[key]) for key in ("core", "runtime", "model"))
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise MalformedError(f"its record is damaged: {error}") from None


def _decompress(raw: bytes) -> bytes:
    most = _ALWAYS_ALLOWED + _LARGEST_RATIO * len(raw)
    unpacker = zlib.decompressobj()
    try:
        graph = unpacker.decompress(raw, most)
    except zlib.error as error:
        raise MalformedError(f"its record is damaged: {error}") from None
    if not unpacker.eof:
        raise MalformedError(f"its record is cut off, or holds more than {most} bytes")
    return graph
