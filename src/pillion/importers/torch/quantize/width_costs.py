# SPDX-License-Identifier: Apache-2.0
"""Estimates the cost of plans of 16-bit tensors from the plans lowered so far."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch.fx_nodes import fake_result
from pillion.importers.torch.observers import calls_of_observers, observer_of
from pillion.importers.torch.quantize.precision import Computation, observed_node

Rows = NDArray[np.bool_]
"""Plans, one a row: whether each tensor has 16 bits."""
Forms = NDArray[Any]
"""Forms of a computation, one a plan: IS_MIXED + IS_WIDE + IS_CHOSEN + IS_WIDENED."""
IS_MIXED, IS_WIDE, IS_CHOSEN, IS_WIDENED = 8, 4, 2, 1
"""Only some of the tensors that it adds or multiplies have 16 bits; it computes in 16 bits; its result has 16 bits; a
reader converts the result to 16 bits."""
FORMS = 16
MIXED = 2.0
"""The time of a sum of both widths relative to 8 bits, until one was lowered; that of 16 bits needs no multipliers."""


class WidthCosts:
    """A cost model: the time of a computation, with the conversions of its result, depends only on its form. A
    computation is wide if it reads or makes a 16-bit tensor; a layer only if it reads one. Forms in lowered plans
    take the time found there. Other forms take the time of 8 or 16 bits, or of sums of both, plus the mean time of
    conversions."""

    def __init__(
        self, prepared: GraphModule, computations: Sequence[Computation], tensors: Sequence[str]
    ) -> None:
        self.computations, self.tensors = computations, tuple(tensors)
        column = {name: number for number, name in enumerate(tensors)}
        names = {o: str(calls[0].target) for o, calls in calls_of_observers(prepared).items()}
        self.results = [names[observer_of(prepared, c.result)] for c in computations]
        operands = [[names[observer_of(prepared, n)] for n in c.operands] for c in computations]
        self.around = [
            sorted({column[name] for name in (made, *read) if name in column})
            if computation.calls and computation.has_form
            else []
            for computation, made, read in zip(computations, self.results, operands, strict=True)
        ]
        self.made = [column.get(name) for name in self.results]
        is_layer = [computation.layer is not None for computation in computations]
        # The tensors that give a computation 16 bits: for layers, their operands.
        self.deciding = [
            sorted({column[name] for name in read if name in column}) if layer and around else around
            for layer, around, read in zip(is_layer, self.around, operands, strict=True)
        ]
        self.mixed = [  # the operands that may differ in width
            [column[name] for name in read if name in column] if computation.may_mix else []
            for computation, read in zip(computations, operands, strict=True)
        ]
        self.elements = [elements_of(c.result) for c in computations]
        number = {c.result: i for i, c in enumerate(computations)}
        self.readers: list[list[int]] = [[] for _ in computations]  # computations that read one width
        for reader, computation in enumerate(computations):
            for operand in () if computation.may_mix else computation.operands:
                if operand in number:
                    self.readers[number[operand]].append(reader)
        self.times: list[dict[int, float]] = [{} for _ in computations]

    def columns(self, i: int) -> set[int]:
        """Returns the numbers of the tensors on which the form of a computation depends."""
        made = self.made[i]
        return {*(() if made is None else (made,))}.union(*(self.around[j] for j in (i, *self.readers[i])))

    def forms(self, i: int, plans: Rows) -> Forms:
        """Returns the forms of a computation in some plans."""
        made = self.made[i]
        is_chosen = np.zeros(len(plans), bool) if made is None else plans[:, made]
        is_wide = plans[:, self.deciding[i]].any(axis=1)
        read = [plans[:, self.around[j]].any(axis=1) for j in self.readers[i]]
        is_widened = ~is_chosen & np.any([np.zeros(len(plans), bool), *read], axis=0)
        is_mixed = is_wide & ~plans[:, self.mixed[i]].all(axis=1)
        return IS_MIXED * is_mixed + IS_WIDE * is_wide + IS_CHOSEN * is_chosen + IS_WIDENED * is_widened

    def rows(self, *plans: Collection[str]) -> Rows:
        """Returns plans as rows."""
        return np.array([[name in plan for name in self.tensors] for plan in plans], bool)

    def learn(self, plan: Collection[str], by_op: Mapping[str, float]) -> None:
        """Notes the times of a lowered plan."""
        row = self.rows(plan)
        for i, time in enumerate(_by_computation(self.computations, by_op)):
            self.times[i][int(self.forms(i, row)[0])] = time

    def table(self) -> NDArray[np.float64]:
        """Returns the time of each computation by its form. The plans with no and with all tensors were lowered."""
        everything = self.rows(self.tensors)
        narrow = np.array([times[0] for times in self.times])
        wide = np.array([self.times[i][int(self.forms(i, everything)[0])] for i in range(len(self.times))])
        forms = np.arange(FORMS)
        flags = IS_MIXED, IS_WIDE, IS_CHOSEN, IS_WIDENED
        is_mixed, is_wide, is_chosen, is_widened = ((forms & flag) > 0 for flag in flags)
        known = np.array([[times.get(form, np.nan) for form in range(FORMS)] for times in self.times])
        plain = np.where(is_wide, wide[:, None], narrow[:, None])
        seen = ~np.isnan(known[:, IS_CHOSEN])
        ratio = known[seen, IS_CHOSEN].sum() / max(wide[seen].sum(), 1.0) if seen.any() else 1.0
        plain[:, ~is_wide & is_chosen] = (ratio * wide)[:, None]  # layers that read 8 bits
        mixed = known[:, IS_MIXED | IS_WIDE | IS_CHOSEN]
        seen = ~np.isnan(mixed)
        ratio = mixed[seen].sum() / max(narrow[seen].sum(), 1.0) if seen.any() else MIXED
        plain[:, is_mixed] = (ratio * narrow)[:, None]
        converted = np.outer(self.elements, (is_wide & ~is_chosen) + 1.0 * is_widened)
        counts = (converted > 0) & ~np.isnan(known)
        of_element = np.maximum(known - plain, 0)[counts].sum() / max(converted[counts].sum(), 1.0)
        return np.where(np.isnan(known), plain + of_element * converted, known)


def _by_computation(computations: Sequence[Computation], by_op: Mapping[str, float]) -> list[float]:
    """Returns the time of the ops of each computation. Ops have the names of the nodes that they come from, with
    suffixes."""
    owners: dict[str, int] = {}
    for i, computation in enumerate(computations):
        for node in (*computation.calls, observed_node(computation.result)):
            owners.setdefault(node.name, i)
    times = [0.0] * len(computations)
    for op, time in by_op.items():
        parts = op.split("_")
        prefixes = ("_".join(parts[:count]) for count in range(len(parts), 0, -1))
        owner = next((owners[prefix] for prefix in prefixes if prefix in owners), None)
        if owner is not None:
            times[owner] += time
    return times


def elements_of(node: Node) -> int:
    """Returns the elements of a tensor, observed or not."""
    value = fake_result(observed_node(node))
    return prod(value.shape) if isinstance(value, Tensor) else 0
