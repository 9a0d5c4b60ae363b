# SPDX-License-Identifier: Apache-2.0
"""Reads sizes and symbols of a linked firmware from its ELF file (Tool Interface Standard 1.2, 32 bits)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pillion.chip_memory import MOST_MEMORIES
from pillion.errors import PillionError

_HEADER = struct.Struct("<16sHHIIIIIHHHHHH")
_SECTION = struct.Struct("<10I")
_SYMBOL = struct.Struct("<IIIBBH")
_MAGIC = b"\x7fELF\x01\x01\x01"
_SYMBOL_TABLE = 2
_OBJECT, _FUNCTION = 1, 2
COPIED_SECTIONS = tuple(f".pillion_constants_{number}" for number in range(MOST_MEMORIES))
"""The sections of constants that are copied to the memories of a program at start."""
MEMORY_SECTIONS = tuple(f".pillion_memory_{number}" for number in range(MOST_MEMORIES))
"""The sections of the arenas of a program in several memories."""
_CONSTANT_SECTIONS = (".constants", *COPIED_SECTIONS)
_ARENA_SECTIONS = (".pillion_arena", *MEMORY_SECTIONS)


@dataclass(frozen=True)
class Symbol:
    """A function or an object of a firmware. `section` is its output section."""

    name: str
    address: int
    bytes: int
    section: str
    is_function: bool


@dataclass(frozen=True)
class ElfSizes:
    """The sizes of a firmware's parts in bytes."""

    code: int
    """The model, its kernels, and the compiler's library functions that they call."""
    tables: int
    """Constants of kernels, the same for every model."""
    constants: int
    """Constants of the model: weights and its description."""
    arena: int
    state: int
    """The states, which persist between runs."""
    stack_reserved: int
    harness: int
    """Start-up, semihosting and measuring, which are not part of a model's cost."""
    symbols: Mapping[str, Symbol]
    places: Mapping[str, range]
    """The addresses of each section."""

    @property
    def flash(self) -> int:
        """The flash of the model: code, tables and constants."""
        return self.code + self.tables + self.constants


@dataclass(frozen=True)
class _Section:
    name_at: int
    kind: int
    address: int
    offset: int
    size: int
    link: int


def read_elf(path: Path) -> ElfSizes:
    """Returns the sizes and symbols of a linked firmware."""
    try:
        image = path.read_bytes()
        sections = list(_read_section_table(image))
        return _elf_sizes(image, sections, _HEADER.unpack_from(image)[-1])
    except (OSError, struct.error, ValueError, IndexError) as error:
        raise PillionError(
            f"{path} cannot be read as a linked firmware",
            rule="an ELF file for 32-bit Arm with a symbol table",
            here=str(error),
            help="pass the file that the build of a firmware folder wrote",
        ) from error


def _elf_sizes(image: bytes, sections: list[_Section], name_section: int) -> ElfSizes:
    names = [_string_at(image, sections[name_section], section.name_at) for section in sections]
    size = {name: section.size for name, section in zip(names, sections, strict=True)}
    symbols = {symbol.name: symbol for symbol in _read_symbols(image, sections, names)}
    return ElfSizes(
        code=size.get(".text", 0),
        tables=size.get(".rodata", 0),
        constants=sum(size.get(name, 0) for name in _CONSTANT_SECTIONS),
        arena=sum(size.get(name, 0) for name in _ARENA_SECTIONS),
        state=size.get(".pillion_state", 0),
        stack_reserved=size.get(".stack", 0),
        harness=size.get(".startup", 0),
        symbols=symbols,
        places={
            name: range(section.address, section.address + section.size)
            for name, section in zip(names, sections, strict=True)
        },
    )


def _read_section_table(image: bytes) -> Iterator[_Section]:
    if not image.startswith(_MAGIC):
        raise ValueError(f"it begins with {image[:7]!r}")
    header = _HEADER.unpack_from(image)
    start, entry_bytes, count = header[6], header[11], header[12]
    for index in range(count):
        name_at, kind, _, address, offset, size, link, *_ = _SECTION.unpack_from(
            image, start + index * entry_bytes
        )
        yield _Section(name_at, kind, address, offset, size, link)


def _read_symbols(image: bytes, sections: list[_Section], names: list[str]) -> Iterator[Symbol]:
    for table in (section for section in sections if section.kind == _SYMBOL_TABLE):
        for at in range(table.offset, table.offset + table.size, _SYMBOL.size):
            name_at, address, size, info, _, section = _SYMBOL.unpack_from(image, at)
            if info & 15 in (_OBJECT, _FUNCTION) and section < len(names):
                is_function = info & 15 == _FUNCTION
                # The lowest bit of a function's address means "Thumb" and is not part of the address.
                start = address & ~1 if is_function else address
                name = _string_at(image, sections[table.link], name_at)
                yield Symbol(name, start, size, names[section], is_function)


def _string_at(image: bytes, strings: _Section, at: int) -> str:
    start = strings.offset + at
    return image[start : image.index(b"\0", start)].decode("utf-8", "replace")
