# SPDX-License-Identifier: Apache-2.0
"""Text of a model in C: whatever a file or a source line is called, it stays a comment or a string."""

from __future__ import annotations

import re

C_TYPES = {
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "uint8_t",
    "int16": "int16_t",
    "uint16": "uint16_t",
    "int32": "int32_t",
    "uint32": "uint32_t",
    "float32": "float",
    "float64": "double",
}
"""Element type → its name in C."""


def commented(text: str) -> str:
    """Gives the text as a comment can hold it: no end, no begin, no backslash, no trigraph, nothing beyond ASCII."""
    plain = re.sub(r"[^ -~]|\\", "_", text)
    return re.sub(r"\*(?=/)|/(?=\*)|\?(?=\?)", r"\g<0> ", plain)


def encodable(text: str) -> str:
    """Gives the text with a question mark for each character that UTF-8 has not: halves of pairs."""
    return text.encode("utf-8", "replace").decode()


def quoted(text: str) -> str:
    """Gives a string literal with these characters, in UTF-8."""
    return '"' + "".join(map(_spelled, encodable(text).encode())) + '"'


def _spelled(byte: int) -> str:
    """Octal numbers end after three digits, hexadecimal ones where they like; `?` could begin a trigraph."""
    is_plain = 32 <= byte < 127 and chr(byte) not in '"\\?'
    return chr(byte) if is_plain else f"\\{byte:03o}"
