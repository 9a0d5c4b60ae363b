# SPDX-License-Identifier: Apache-2.0
"""The layers that got weights of 4 bits for a wished size of flash, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FlashChoice:
    """The layers that got weights of 4 bits, those of least damage for each byte first. Bytes are of constants, ratios in
    dB against the float model."""

    limit: int
    before_bytes: int
    after_bytes: int
    before: float
    after: float
    layers: tuple[str, ...]
    candidates: int

    @property
    def text(self) -> str:
        """Says what was chosen, and what it costs."""
        return (
            f"weights of 4 bits in {len(self.layers)} of {self.candidates} layers: {self.before_bytes} bytes of constants with 8 bits, "
            f"{self.after_bytes} now; {self.before:.1f} dB with 8 bits, {self.after:.1f} dB now: {', '.join(self.layers) or 'none'}"
        )
