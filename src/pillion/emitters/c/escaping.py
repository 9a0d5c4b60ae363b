# SPDX-License-Identifier: Apache-2.0
"""Text from the model in C source: comments and string literals that no name or path can break out of."""

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
    "int64": "int64_t",
    "float32": "float",
    "float64": "double",
}
"""Element type → C type."""


def comment_text(text: str) -> str:
    """Returns text that is safe inside a C comment: ASCII, without comment delimiters, backslashes and trigraphs."""
    plain = re.sub(r"[^ -~]|\\", "_", text)
    return re.sub(r"\*(?=/)|/(?=\*)|\?(?=\?)", r"\g<0> ", plain)


def replace_surrogates(text: str) -> str:
    """Returns the text with each lone surrogate, which UTF-8 cannot encode, replaced by a question mark."""
    return text.encode("utf-8", "replace").decode()


def string_literal(text: str) -> str:
    """Returns a C string literal with this text in UTF-8."""
    return '"' + "".join(map(_escape_byte, replace_surrogates(text).encode())) + '"'


def _escape_byte(byte: int) -> str:
    """Returns a byte of a string literal, octal if special: octal escapes end after three digits, hexadecimal ones
    do not."""
    is_plain = 32 <= byte < 127 and chr(byte) not in '"\\?'
    return chr(byte) if is_plain else f"\\{byte:03o}"
