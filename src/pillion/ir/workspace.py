# SPDX-License-Identifier: Apache-2.0
"""The memory that another processor works in, and where it expects operands and leaves results there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Workspace:
    """Bytes that are a segment's own while it runs. What it reads and makes has a fixed place inside."""

    bytes: int
    inputs: tuple[int, ...]
    """The offset of each operand."""
    outputs: tuple[int, ...]
    """The offset of each result. It may be that of an operand, which is read before."""
