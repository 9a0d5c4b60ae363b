# SPDX-License-Identifier: Apache-2.0
"""The code of an image's NPU segments, which follows the image in the data of a delegate (runtime/PillionSegments.h reads it)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pillion.emitters.image.writer import DTYPES
from pillion.ir.types import Value
from pillion.ops import Segment

MAGIC = b"PLN1"
ALIGNMENT = 16
HEADER_WORDS, ENTRY_WORDS = 4, 5


def npu_code(delegate: str, segments: Sequence[Segment], payloads: Sequence[bytes]) -> bytes:
    """Returns the payloads of segments in running order, each with the types of its operands and results, for a delegate."""
    entries, tensors = [], b""
    tables = 4 * (HEADER_WORDS + ENTRY_WORDS * len(segments))
    for segment in segments:
        entries.append((tables + len(tensors), len(segment.xs), len(segment.ys)))
        tensors += b"".join(map(_tensor, (*segment.xs, *segment.ys)))
    name_at = tables + len(tensors)
    front = tensors + delegate.encode() + b"\0"
    codes, table = b"", b""
    first = name_at + len(delegate) + 1
    first += -first % ALIGNMENT
    for payload, entry in zip(payloads, entries, strict=True):
        table += struct.pack("<5I", first + len(codes), len(payload), *entry)
        codes += payload + bytes(-len(payload) % ALIGNMENT)
    head = struct.pack("<4sIII", MAGIC, first + len(codes), len(segments), name_at)
    made = head + table + front
    return made + bytes(first - len(made)) + codes


def _tensor(value: Value) -> bytes:
    """Returns element type, rank and sizes of a tensor."""
    return struct.pack(f"<{2 + len(value.shape)}I", DTYPES.index(value.dtype), len(value.shape), *value.shape)
