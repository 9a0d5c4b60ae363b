# SPDX-License-Identifier: Apache-2.0
"""The flash size of a program, the layers with smaller constants that a size limit needs, and their cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FlashSize:
    """Bytes of flash without start-up code: constants, and the code and tables of the linked firmware. Code is None if it is
    not known: without the cross compiler, or if it calls an NPU's driver."""

    constants: int
    code: int | None

    @property
    def bytes(self) -> int:
        """All bytes that are known."""
        return self.constants + (self.code or 0)

    def __str__(self) -> str:
        code = "without code, whose size is not known here" if self.code is None else f"{self.code:,} of code"
        return f"{self.bytes:,} bytes of flash ({self.constants:,} of constants, {code})"


@dataclass(frozen=True)
class FlashChoice:
    """The layers with 4-bit weights, in order of damage per byte saved, the least first, and the layers with slower
    kernels. Bytes are of flash: constants and, if known, code. Ratios are in dB against the float model."""

    limit: int
    before_bytes: int
    after_bytes: int
    before: float
    after: float
    layers: tuple[str, ...]
    candidates: int
    has_code: bool = True
    """Whether the code was linked and counts."""
    slower: tuple[str, ...] = ()
    """Layers of 8 bits whose kernel is not the fastest, because the constants of that take more flash."""

    @property
    def text(self) -> str:
        """Describes the choice and its cost."""
        slower = f"slower kernels with smaller constants for {', '.join(self.slower)}; "
        return (
            f"{slower if self.slower else ''}weights of 4 bits in {len(self.layers)} of {self.candidates} layers: {self.before_bytes:,} bytes of flash with 8 bits, "
            f"{self.after_bytes:,} now{'' if self.has_code else ', without code, whose size is not known here'}; {self.before:.1f} dB with 8 bits, {self.after:.1f} dB now: {', '.join(self.layers) or 'none'}"
        )
