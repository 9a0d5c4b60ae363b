# SPDX-License-Identifier: Apache-2.0
"""Reads the numbers of a FlexBuffers map, such as the options of a custom operator, from untrusted bytes."""

from __future__ import annotations

import struct
from typing import Any

from flatbuffers import flexbuffers

from pillion.schemas.flatbuffer import MalformedError

ROOT: Any = flexbuffers.GetRoot
"""The reader has no type annotations."""
MOST_NUMBERS = 1000


def read_map_numbers(raw: bytes) -> dict[str, int | float | bool]:
    """Returns the numbers of a map by name; other values are ignored."""
    try:
        options = ROOT(raw).AsMap
        if len(options) > MOST_NUMBERS:
            raise ValueError(f"{len(options)} names")
        pairs = zip(options.Keys, options.Values, strict=True)
        return {key.AsKey: value.Value for key, value in pairs if value.IsNumeric or value.IsBool}
    except (ValueError, LookupError, TypeError, ArithmeticError, AssertionError, struct.error) as error:
        raise MalformedError(f"a FlexBuffers map of options is damaged: {error}") from None
