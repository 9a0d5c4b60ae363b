# SPDX-License-Identifier: Apache-2.0
"""Tables as nested dictionaries, packed into a flatbuffer by the schema. Equal vectors and strings are stored once."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from flatbuffers import Builder

from pillion.pte_schema import ALIGNMENT, IDENTIFIER, NUMBERS, TABLES, UNIONS, Field

Table = Mapping[str, Any]
"""Field → number, text, bytes, sequence, table, or for a union (name of the table, table). What is absent or zero takes no room."""


def pack(table: Table, kind: str = "Program") -> bytes:
    """A whole flatbuffer with its file identifier."""
    packer = _Packer()
    root = packer.table(kind, table)
    packer.builder.Finish(root, file_identifier=IDENTIFIER)
    return bytes(packer.builder.Output())


class _Packer:
    def __init__(self) -> None:
        self.builder: Any = Builder(1 << 16)
        self.known: dict[tuple[str, Any], int] = {}

    def table(self, kind: str, table: Table) -> int:
        fields = [f for f in TABLES[kind] if table.get(f.name) is not None]
        assert len(fields) == len([v for v in table.values() if v is not None]), (kind, table)
        offsets = {f: self.reference(f, table[f.name]) for f in fields if f.kind not in NUMBERS}
        self.builder.StartObject(_slots(kind))
        for field in fields:
            self.put(field, table[field.name], offsets.get(field, 0))
        return int(self.builder.EndObject())

    def reference(self, field: Field, held: Any) -> int:
        """What a field that is not a number points to."""
        if field.kind in UNIONS:
            kind, table = held
            return self.table(kind, table)
        if field.kind == "string":
            return self.remembered("string", held, lambda: self.builder.CreateString(held))
        if not field.kind.startswith("["):
            return self.table(field.kind, held)
        return self.vector(field.kind[1:-1], held)

    def vector(self, kind: str, held: Sequence[Any] | bytes) -> int:
        if isinstance(held, bytes):
            return self.aligned_bytes(held)
        if kind in NUMBERS:
            raw = struct.pack(f"<{len(held)}{NUMBERS[kind]}", *held)
            return self.remembered(kind, raw, lambda: self.numbers(kind, raw, len(held)))
        offsets = [self.table(kind, one) for one in held]
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return int(self.builder.EndVector())

    def remembered(self, kind: str, content: Any, make: Any) -> int:
        key = (kind, content)
        if key not in self.known:
            self.known[key] = int(make())
        return self.known[key]

    def numbers(self, kind: str, raw: bytes, count: int) -> int:
        size = struct.calcsize(f"<{NUMBERS[kind]}")
        self.builder.StartVector(size, count, size)
        return self.finish_vector(raw)

    def aligned_bytes(self, raw: bytes) -> int:
        self.builder.StartVector(1, len(raw), ALIGNMENT)
        return self.finish_vector(raw)

    def finish_vector(self, raw: bytes) -> int:
        builder = self.builder
        builder.head -= len(raw)
        builder.Bytes[builder.head : builder.head + len(raw)] = raw
        return int(builder.EndVector())

    def put(self, field: Field, held: Any, offset: int) -> None:
        builder = self.builder
        if field.kind in UNIONS:
            builder.PrependUint8Slot(field.slot, UNIONS[field.kind].index(held[0]) + 1, 0)
            builder.PrependUOffsetTRelativeSlot(field.slot + 1, offset, 0)
        elif field.kind in NUMBERS:
            getattr(builder, _PUT[field.kind])(field.slot, held, 0)
        else:
            builder.PrependUOffsetTRelativeSlot(field.slot, offset, 0)


_PUT = {
    "bool": "PrependBoolSlot",
    "i8": "PrependInt8Slot",
    "u8": "PrependUint8Slot",
    "i32": "PrependInt32Slot",
    "u32": "PrependUint32Slot",
    "i64": "PrependInt64Slot",
    "u64": "PrependUint64Slot",
    "f64": "PrependFloat64Slot",
}


def _slots(kind: str) -> int:
    fields = TABLES[kind]
    return fields[-1].slot + (2 if fields[-1].kind in UNIONS else 1) if fields else 0
