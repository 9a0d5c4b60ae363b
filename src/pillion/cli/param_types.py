# SPDX-License-Identifier: Apache-2.0
"""Parsers of typed sizes and pairs."""

from __future__ import annotations

import re

from pillion.errors import PillionError


def parse_pair(spelled: str) -> tuple[str, int]:
    """Parses `h:1` as an input's name and an output's number."""
    name, _, number = spelled.rpartition(":")
    if not name or not (number.isascii() and number.isdigit()):
        raise PillionError(
            f"--state-pair {spelled} names no pair",
            rule="INPUT:OUTPUT: the name of an input, and the number of an output, from 0 on",
            here=spelled,
            help="--state-pair h:1",
        )
    return name, int(number)


def parse_size(text: str | None) -> tuple[int, int] | None:
    """Parses `96` or `96x128` as height and width."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)(?:x(\d+))?", text)
    if match is None or "0" in (match[1], match[2]):
        raise PillionError(
            f"--input-size {text} is not a size",
            rule="one number, or height x width, in pixels",
            here=text,
            help="--input-size 96 or --input-size 96x128",
        )
    return int(match[1]), int(match[2] or match[1])
