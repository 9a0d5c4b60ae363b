# SPDX-License-Identifier: Apache-2.0
"""The memory that an NPU works in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Workspace:
    """Bytes that belong to a segment while it runs. Its operands and results have fixed offsets inside."""

    bytes: int
    inputs: tuple[int, ...]
    """The offset of each operand."""
    outputs: tuple[int, ...]
    """The offset of each result. It may equal the offset of an operand that is read before."""
