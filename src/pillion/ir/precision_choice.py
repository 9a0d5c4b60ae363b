# SPDX-License-Identifier: Apache-2.0
"""The tensors that the compiler gives 16 bits: what they cost, what they gain, and the bounds that they hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pillion.ir.graph import Graph
from pillion.ir.verdict import Verdict


@dataclass(frozen=True)
class PlanCost:
    """The estimated costs of a lowered program."""

    time: float
    """Instructions per run; with an NPU, cycles."""
    ram_bytes: int
    flash_bytes: int
    """Bytes of constants."""
    unit: str = "instructions"
    by_op: Mapping[str, float] = field(default_factory=dict)
    """The time of each op, by the name of its result."""


@dataclass(frozen=True)
class CostBound:
    """The most of one cost that a plan may have, as a number or in parts of the plan in 8 bits."""

    option: str
    figure: str
    """A field of PlanCost."""
    most: float
    is_relative: bool = False

    def verdict(self, cost: PlanCost, in_8_bits: PlanCost) -> Verdict:
        """Judges a plan."""
        most = self.most * getattr(in_8_bits, self.figure) if self.is_relative else self.most
        unit = cost.unit if self.figure == "time" else "bytes"
        found = getattr(cost, self.figure)
        return Verdict(self.option, found <= most, f"at most {most:,.0f} {unit}", f"{found:,.0f}")


@dataclass(frozen=True)
class Pricing:
    """Lowers graphs to learn their costs, and the bounds of these."""

    cost: Callable[[Graph], PlanCost]
    bounds: tuple[CostBound, ...] = ()


@dataclass(frozen=True)
class ChosenTensor:
    """A tensor that got 16 bits, and what it gains and costs: how the program would differ without it."""

    name: str
    decibels: float
    """Simulated in float."""
    time: float
    ram_bytes: int
    flash_bytes: int


@dataclass(frozen=True)
class PrecisionChoice:
    """The tensors that got 16 bits, in running order, and the program with them, with none, and with all that can."""

    wish: float | None
    """The least signal-to-noise ratio in dB; None if the best within the bounds was sought."""
    before: float
    after: float
    everywhere: float
    tensors: tuple[ChosenTensor, ...]
    candidates: int
    cost: PlanCost
    cost_before: PlanCost
    cost_everywhere: PlanCost
    judges: str
    """The samples that judged."""
    verdicts: tuple[Verdict, ...] = ()

    @property
    def text(self) -> str:
        """Says what was chosen, and what it gained."""
        names = ", ".join(self._text_of(tensor) for tensor in self.tensors) or "none"
        share, all_share = (self.time_share(c) for c in (self.cost, self.cost_everywhere))
        return (
            f"16 bits in {len(self.tensors)} of {self.candidates} tensors: {self.before:.1f} dB in 8 bits, {self.after:.1f} dB now ({share}), "
            f"{self.everywhere:.1f} dB with all in 16 bits ({all_share}), by {self.judges}: {names}"
        )

    def _text_of(self, tensor: ChosenTensor) -> str:
        return f"{tensor.name} ({tensor.decibels:+.1f} dB, {100 * tensor.time / max(self.cost_before.time, 1):+.1f} %)"

    def time_share(self, cost: PlanCost) -> str:
        """Returns the time that a plan takes, relative to 8 bits."""
        return f"{100 * (cost.time / max(self.cost_before.time, 1) - 1):+.0f} % {cost.unit}"
