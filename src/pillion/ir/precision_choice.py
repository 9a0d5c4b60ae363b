# SPDX-License-Identifier: Apache-2.0
"""The tensors that got 16 bits for a wished quality, and what that gained."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ChosenTensor:
    """A tensor that got 16 bits, and what it gained after those before it, simulated in float."""

    name: str
    decibels: float


@dataclass(frozen=True)
class PrecisionChoice:
    """The tensors that got 16 bits, in the order of what they gain for what they cost."""

    wish: float
    before: float
    after: float
    everywhere: float
    tensors: tuple[ChosenTensor, ...]
    candidates: int

    @property
    def text(self) -> str:
        """Says what was chosen, and what it gained."""
        names = ", ".join(f"{t.name} ({t.decibels:+.1f} dB)" for t in self.tensors) or "none"
        return (
            f"16 bits in {len(self.tensors)} of {self.candidates} tensors: {self.before:.1f} dB in 8 bits, {self.after:.1f} dB now, "
            f"{self.everywhere:.1f} dB with all in 16 bits: {names}"
        )
