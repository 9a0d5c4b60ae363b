# SPDX-License-Identifier: Apache-2.0
"""Reads the numbers of a FlexBuffers map, the options of custom operators. The bytes are untrusted."""

from __future__ import annotations

import struct

from pillion.schemas.flatbuffer import MalformedError

INT, UINT, FLOAT, MAP, BOOL = 1, 2, 3, 9, 26
INDIRECT = {6: INT, 7: UINT, 8: FLOAT}
"""Types of indirect numbers → type of the number."""
CODES = {INT: "bhiq", UINT: "BHIQ", BOOL: "BHIQ"}
FLOATS = {2: "e", 4: "f", 8: "d"}
MOST_NUMBERS = 1000


def read_map_numbers(raw: bytes) -> dict[str, int | float | bool]:
    """Returns the numbers of a map by name; other values are ignored."""
    if len(raw) < 3:
        raise MalformedError(f"a FlexBuffers map has at least 3 bytes, found {len(raw)}")
    type_, width = raw[-2] >> 2, raw[-1]
    if type_ != MAP or width not in (1, 2, 4, 8):
        raise MalformedError(f"a FlexBuffers map is wanted, found type {type_} of {width} bytes")
    offset = len(raw) - 2 - width
    return _read_map(raw, _backward_target(raw, offset, width), 1 << (raw[-2] & 3))


def _read_map(raw: bytes, at: int, width: int) -> dict[str, int | float | bool]:
    count = int(_read_number(raw, at - width, width, UINT))
    keys = _backward_target(raw, at - 3 * width, width)
    key_width = int(_read_number(raw, at - 2 * width, width, UINT))
    if count > MOST_NUMBERS or key_width not in (1, 2, 4, 8):
        raise MalformedError(f"{count} names of {key_width} bytes in a FlexBuffers map")
    numbers: dict[str, int | float | bool] = {}
    for i in range(count):
        name = _read_text(raw, _backward_target(raw, keys + i * key_width, key_width))
        packed = int(_read_number(raw, at + count * width + i, 1, UINT))
        type_, offset, size = packed >> 2, at + i * width, width
        if type_ in INDIRECT:
            type_, offset, size = INDIRECT[type_], _backward_target(raw, offset, width), 1 << (packed & 3)
        if type_ in (INT, UINT, FLOAT, BOOL):
            value = _read_number(raw, offset, size, type_)
            numbers[name] = bool(value) if type_ == BOOL else value
    return numbers


def _backward_target(raw: bytes, at: int, width: int) -> int:
    """Returns the target of a backward offset."""
    return at - int(_read_number(raw, at, width, UINT))


def _read_number(raw: bytes, at: int, width: int, type_: int) -> int | float:
    if at < 0 or at + width > len(raw):
        raise MalformedError(f"a FlexBuffers offset points to byte {at} of {len(raw)}")
    code = FLOATS.get(width) if type_ == FLOAT else CODES[type_][width.bit_length() - 1]
    if code is None:
        raise MalformedError("a FlexBuffers number of one byte is no real number")
    number: int | float = struct.unpack_from(f"<{code}", raw, at)[0]
    return number


def _read_text(raw: bytes, at: int) -> str:
    end = raw.find(0, max(at, 0))
    if at < 0 or end < 0:
        raise MalformedError(f"a FlexBuffers name begins at byte {at} of {len(raw)} and does not end")
    return raw[at:end].decode("utf-8", "replace")
