# SPDX-License-Identifier: Apache-2.0
"""A change within one line of a text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """Bytes `begin` to `end` of line `line` (from 1) become `new`."""

    line: int
    begin: int
    end: int
    new: str
    kind: str
    """What was done, in a word or two."""
