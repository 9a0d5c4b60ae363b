# SPDX-License-Identifier: Apache-2.0
"""The compiler's choice of 16-bit tensors: their costs, their gains, and the bounds that they satisfy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from pillion.ir.graph import Graph
from pillion.ir.types import Array, Shape
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
class MetricChange:
    """A metric of labelled samples in float and of a program, and the most that it may be worse."""

    name: str
    in_float: float
    found: float
    most: float
    samples: int

    @property
    def is_share(self) -> bool:
        """Whether the metric is a share, whose change counts in points. Other changes are relative to float."""
        return self.name == "auc" or self.name.startswith("top")

    @property
    def drop(self) -> float:
        """The part by which the program is worse: smaller, or larger for the errors mse and mae."""
        lost = self.in_float - self.found
        if self.is_share:
            return lost
        lost = -lost if self.name in ("mse", "mae") else lost
        return lost / abs(self.in_float) if self.in_float else inf if lost > 0 else 0.0

    @property
    def is_ok(self) -> bool:
        """Whether the program is not worse than it may be."""
        return self.drop <= self.most + 1e-12

    @property
    def text(self) -> str:
        """Says how the metric changes, and how many samples that is."""
        change = f"{round(-100 * self.drop, 2) + 0.0:+.2f} {'points' if self.is_share else '%'}"
        counted = f"{round(self.drop * self.samples)} of " if self.name.startswith("top") else ""
        return f"{self.name} {self.found:.4f}, {self.in_float:.4f} in float ({change}, {counted}{self.samples} samples)"

    @property
    def note(self) -> str:
        """Says that the bound is finer than the samples tell; empty if it is not."""
        if not self.is_share or self.most * self.samples >= 1:
            return ""
        return f"{self.samples} samples tell {self.name} by {100 / self.samples:.2f} points: --max-drop {100 * self.most:g}% allows for no sample less"


class FloatRuns(Protocol):
    """A float model that runs samples, such as `pillion.importers.torch.float_model.float_model` returns."""

    @property
    def name(self) -> str:
        """The model's name."""

    @property
    def input_shapes(self) -> tuple[Shape, ...]:
        """The shapes of the inputs."""

    def outputs(self, runs: Sequence[Sequence[Array]]) -> list[tuple[Array, ...]]:
        """Returns the outputs of each run."""


@dataclass(frozen=True)
class Pricing:
    """Lowers graphs to learn their costs and metrics; holds the bounds of both."""

    cost: Callable[[Graph], PlanCost]
    bounds: tuple[CostBound, ...] = ()
    quality: float | None = None
    """The least signal-to-noise ratio in dB."""
    metric: Callable[[Graph, FloatRuns], MetricChange] | None = None
    """Runs the program of a graph on labelled samples, and compares it with float."""


@dataclass(frozen=True)
class ChosenTensor:
    """A 16-bit tensor with its gain and cost: the difference to the program without it."""

    name: str
    decibels: float
    """Simulated in float."""
    time: float
    ram_bytes: int
    flash_bytes: int


@dataclass(frozen=True)
class PrecisionChoice:
    """The 16-bit tensors in running order, and three programs to compare: with these tensors, with none, and with all
    that can have 16 bits."""

    required_quality: float | None
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
    metrics: tuple[MetricChange, ...] = ()
    """Before, now, and with all in 16 bits, if a metric was judged."""

    @property
    def text(self) -> str:
        """The choice and its gain as text."""
        names = ", ".join(self._text_of(tensor) for tensor in self.tensors) or "none"
        share, all_share = (self.time_share(c) for c in (self.cost, self.cost_everywhere))
        return (
            f"16 bits in {len(self.tensors)} of {self.candidates} tensors: {self.before:.1f} dB in 8 bits, {self.after:.1f} dB now ({share}), "
            f"{self.everywhere:.1f} dB with all in 16 bits ({all_share}), by {self.judges}: {names}"
            + (f"; {self.metrics[1].text}" if self.metrics else "")
        )

    @property
    def has_quality(self) -> bool:
        """Whether the required quality is reached, if there is one."""
        return self.required_quality is None or self.after >= self.required_quality

    def _text_of(self, tensor: ChosenTensor) -> str:
        share = 100 * tensor.time / max(self.cost_before.time, 1)
        sizes = (("RAM", tensor.ram_bytes), ("flash", tensor.flash_bytes))
        bytes_ = "".join(f", {size:+,} bytes of {memory}" for memory, size in sizes if size)
        return f"{tensor.name} ({tensor.decibels:+.1f} dB, {share:+.1f} %{bytes_})"

    def time_share(self, cost: PlanCost) -> str:
        """Returns the time that a plan takes, relative to 8 bits."""
        return f"{100 * (self.time_ratio(cost) - 1):+.0f} % {cost.unit}"

    def time_ratio(self, cost: PlanCost) -> float:
        """Returns the time that a plan takes, in parts of that in 8 bits."""
        return cost.time / max(self.cost_before.time, 1)
