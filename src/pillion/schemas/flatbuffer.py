# SPDX-License-Identifier: Apache-2.0
"""FlatBuffers by declaration: a table is a dataclass whose fields have a number and a kind.

    class Pool2DOptions(Table):
        padding: int = scalar(0, "b")
        stride_w: int = scalar(1, "i")

`pack` writes tables with the `flatbuffers` package. `unpack` reads untrusted files: every access is inside the file, tables nest only
as deep as the declaration, and the number of elements is bounded by the file's size, however often offsets share a target.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from flatbuffers.builder import Builder
from numpy.typing import NDArray
from typing_extensions import dataclass_transform

Bytes = NDArray[np.uint8]
T = TypeVar("T", bound="Table")

OFFSET_BYTES = 4
ELEMENTS_PER_BYTE = 2
"""The reader's budget: a file may point to one vector several times."""


class MalformedError(ValueError):
    """A file violates its format."""


@dataclass(frozen=True)
class FieldKind:
    """The kind of a field. `code` is the letter of `struct` for numbers, `of` the class of a table."""

    form: str
    code: str = ""
    of: Callable[[], Any] | None = None
    tag: str = ""
    alignment: int = 16
    """The alignment of bytes."""

    @property
    def size(self) -> int:
        """The size of a field in its table, in bytes."""
        return struct.calcsize(self.code) if self.code else OFFSET_BYTES


def number_field(number: int, code: str, default: float = 0) -> Any:
    """Declares a number field; `code` is the letter of `struct`. A field that equals `default` is not
    stored."""
    return _declare_field(
        number, FieldKind("scalar", code), default=bool(default) if code == "?" else default
    )


def numbers_field(number: int, code: str) -> Any:
    """Declares a vector of numbers."""
    return _declare_field(number, FieldKind("numbers", code), default_factory=list)


def optional_int32s_field(number: int) -> Any:
    """Declares a vector of int32 or None, for mostly absent fields."""
    return _declare_field(number, FieldKind("numbers", "i"), default=None)


def data(number: int, alignment: int = 16) -> Any:
    """Declares bytes or None, aligned to 16 or more and not copied when read."""
    return _declare_field(number, FieldKind("data", "B", alignment=alignment), default=None)


def text_field(number: int) -> Any:
    """Declares a string."""
    return _declare_field(number, FieldKind("text"), default="")


def table_field(number: int, of: Callable[[], type[Table]]) -> Any:
    """Declares a table or None."""
    return _declare_field(number, FieldKind("table", of=of), default=None)


def tables_field(number: int, of: Callable[[], type[Table]]) -> Any:
    """Declares a vector of tables."""
    return _declare_field(number, FieldKind("tables", of=of), default_factory=list)


def union_field(number: int, tag: str, of: Callable[[], Mapping[int, type[Table]]]) -> Any:
    """Declares a table whose class the field `tag` selects; None if the tag is unknown."""
    return _declare_field(number, FieldKind("union", of=of, tag=tag), default=None)


def presence_field(number: int) -> Any:
    """Declares a field that is read only as present or absent, and never written."""
    return _declare_field(number, FieldKind("present"), default=False)


def _declare_field(number: int, kind: FieldKind, **default: Any) -> Any:
    return dataclasses.field(metadata={"number": number, "kind": kind}, **default)


@dataclass_transform()
class Table:
    """The base of all tables; subclasses become dataclasses."""

    layout: ClassVar[tuple[tuple[str, int, FieldKind, Any], ...]] = ()
    """Name, number, kind and default of every field."""

    def __init_subclass__(cls) -> None:
        table_class: Any = dataclasses.dataclass(cls)
        fields = dataclasses.fields(table_class)
        cls.layout = tuple((f.name, f.metadata["number"], f.metadata["kind"], f.default) for f in fields)


# Writing


class _Builder(Builder):
    """Remembers the offsets of texts and vectors of numbers, to store equal ones once."""

    def __init__(self, share: bool) -> None:
        super().__init__(1024)  # type: ignore[no-untyped-call]  # the package has no annotations
        self.share = share
        self.places: dict[tuple[str, object], int] = {}

    def once(self, key: tuple[str, object], make: Callable[[], int]) -> int:
        if not self.share:
            return make()
        if key not in self.places:
            self.places[key] = make()
        return self.places[key]


def write_flatbuffer(root: Table, identifier: bytes, *, share: bool = False) -> bytes:
    """Returns the bytes of a file. With `share`, equal texts and vectors of numbers are stored once."""
    builder: Any = _Builder(share)
    builder.Finish(_pack_table(builder, root), file_identifier=identifier)
    return bytes(builder.Output())


def _pack_table(builder: Any, packed: Table) -> int:
    fields = packed.layout
    offsets = {name: _pack_child(builder, kind, getattr(packed, name)) for name, _, kind, _ in fields}
    builder.StartObject(1 + max((number for _, number, _, _ in fields), default=-1))
    for name, number, kind, default in fields:
        if kind.form == "scalar":
            _WRITE_SCALAR[kind.code](builder, number, getattr(packed, name), default)
        elif offsets[name] is not None:
            builder.PrependUOffsetTRelativeSlot(number, offsets[name], 0)
    return int(builder.EndObject())


_WRITE_SCALAR: dict[str, Callable[[Any, int, Any, Any], None]] = {
    "b": Builder.PrependInt8Slot,
    "B": Builder.PrependUint8Slot,
    "?": Builder.PrependBoolSlot,
    "i": Builder.PrependInt32Slot,
    "I": Builder.PrependUint32Slot,
    "q": Builder.PrependInt64Slot,
    "Q": Builder.PrependUint64Slot,
    "f": Builder.PrependFloat32Slot,
    "d": Builder.PrependFloat64Slot,
}


def _pack_child(builder: Any, kind: FieldKind, value: Any) -> int | None:
    """Writes the part that must precede its table in the file, and returns its offset."""
    if value is None or kind.form in ("scalar", "present"):
        return None
    match kind.form:
        case "text":
            return int(builder.once(("text", value), lambda: builder.CreateString(value)))
        case "numbers":
            array = np.asarray(value, f"<{kind.code}")
            return int(
                builder.once((kind.code, array.tobytes()), lambda: _pack_bytes(builder, array, kind.size))
            )
        case "data":
            return _pack_bytes(builder, value, kind.alignment)
        case "tables":
            return _pack_offsets(builder, [_pack_table(builder, t) for t in value])
        case _:
            return _pack_table(builder, value)


def _pack_bytes(builder: Any, array: NDArray[Any], alignment: int) -> int:
    raw = array.tobytes()
    builder.StartVector(array.itemsize, array.size, alignment)
    builder.head -= len(raw)
    builder.Bytes[builder.head : builder.head + len(raw)] = raw
    return int(builder.EndVector())


def _pack_offsets(builder: Any, offsets: list[int]) -> int:
    builder.StartVector(OFFSET_BYTES, len(offsets), OFFSET_BYTES)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


# Reading


def read_root_table(cls: type[T], raw: bytes, identifier: bytes) -> T:
    """Returns the root table of a file."""
    if raw[4:8] != identifier:
        raise MalformedError(f"bytes 4 to 8 are {identifier!r}, found {raw[4:8]!r}")
    reader = _Reader(raw)
    root: T = reader.table(cls, reader.follow(0))
    return root


class _Reader:
    """Checked access to bytes, with a budget of elements."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        self.budget = ELEMENTS_PER_BYTE * len(raw)

    def number(self, code: str, at: int) -> Any:
        self.require_bytes(at, struct.calcsize(code))
        return struct.unpack_from(f"<{code}", self.raw, at)[0]

    def require_bytes(self, at: int, size: int) -> None:
        if at < 0 or at + size > len(self.raw):
            raise MalformedError(f"an offset points to byte {at} of {len(self.raw)}")

    def spend_budget(self, elements: int) -> None:
        self.budget -= elements
        if self.budget < 0:
            raise MalformedError("its tables hold more elements than a file of this size can describe")

    def follow(self, at: int) -> int:
        return at + int(self.number("I", at))

    def table(self, cls: type[Table], at: int) -> Any:
        self.spend_budget(1 + len(cls.layout))
        vtable = at - int(self.number("i", at))
        slots = (int(self.number("H", vtable)) - 4) // 2
        offsets = [int(self.number("H", vtable + 4 + 2 * n)) if n < slots else 0 for _, n, _, _ in cls.layout]
        fields: dict[str, Any] = {}
        for (name, _, kind, _), offset in zip(cls.layout, offsets, strict=True):
            if offset:
                fields[name] = self.field(kind, at + offset, fields)
        return cls(**fields)

    def field(self, kind: FieldKind, at: int, fields: Mapping[str, Any]) -> Any:
        match kind.form:
            case "present":
                return True
            case "scalar":
                return self.number(kind.code, at)
            case "text":
                return bytes(self.vector("B", self.follow(at))).decode("utf-8", "replace")
            case "numbers":
                return self.vector(kind.code, self.follow(at)).tolist()
            case "data":
                return self.view("B", self.follow(at))
            case "table":
                return self.table(kind.of(), self.follow(at))  # type: ignore[misc]  # tables have a class
            case "tables":
                return self.tables(kind.of(), self.follow(at))  # type: ignore[misc]  # so do these
            case _:
                cls = kind.of().get(fields.get(kind.tag))  # type: ignore[misc]  # unions have classes
                return self.table(cls, self.follow(at)) if cls else None

    def tables(self, cls: type[Table], at: int) -> list[Any]:
        count = len(self.vector("I", at))
        return [self.table(cls, self.follow(at + OFFSET_BYTES * (1 + n))) for n in range(count)]

    def vector(self, code: str, at: int) -> NDArray[Any]:
        seen = self.view(code, at)
        self.spend_budget(len(seen))
        return seen

    def view(self, code: str, at: int) -> NDArray[Any]:
        """Returns a vector without a copy."""
        length, dtype = int(self.number("I", at)), np.dtype(f"<{code}")
        self.require_bytes(at + OFFSET_BYTES, length * dtype.itemsize)
        return np.frombuffer(self.raw, dtype, length, at + OFFSET_BYTES)
