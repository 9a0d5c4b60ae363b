# SPDX-License-Identifier: Apache-2.0
"""Estimates what tensors of 16 bits cost, from a few lowered programs, and orders tensors by it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import inf, prod

from torch import Tensor
from torch.fx import GraphModule, Node

from pillion.importers.torch.fx_nodes import fake_result
from pillion.importers.torch.observers import calls_of_observers, observer_of
from pillion.importers.torch.quantize.precision import Computation
from pillion.ir.precision_choice import PlanCost

CostOf = Callable[[Sequence[str]], PlanCost]
LENGTHS = (1, 2, 4, 8, 16, 32)
"""Tensors in running order that get 16 bits together: alone, a tensor may cost two conversions."""


class WidthCosts:
    """A model of costs: each op has one time in 8 bits and one in 16, each converted element costs the same. An op
    computes in 16 bits if a tensor that it reads or makes has them."""

    def __init__(
        self,
        prepared: GraphModule,
        computations: Sequence[Computation],
        tensors: Sequence[str],
        cost: CostOf,
    ) -> None:
        self.tensors = tuple(tensors)
        names = {o: str(calls[0].target) for o, calls in calls_of_observers(prepared).items()}
        self.results = [names[observer_of(prepared, c.result)] for c in computations]
        operands = [tuple(names[observer_of(prepared, n)] for n in c.operands) for c in computations]
        self.around = [{made, *read} for made, read in zip(self.results, operands, strict=True)]
        self.has_form = [bool(c.calls) and c.has_form for c in computations]
        self.elements = [elements_of(c.result) for c in computations]
        number = {c.result: i for i, c in enumerate(computations)}
        producers = [[number[n] for n in c.operands if n in number] for c in computations]
        self.readers: list[list[int]] = [[] for _ in computations]
        for reader, made in enumerate(producers):
            for producer in made:
                self.readers[producer].append(reader)
        self.affected: dict[str, set[int]] = {name: set() for name in names.values()}
        for i, around in enumerate(self.around):
            for name in around:
                self.affected[name] |= {i, *producers[i]}
        narrow, wide = (_by_computation(computations, cost(some).by_op) for some in ((), self.tensors))
        self.more = [b - a for a, b in zip(narrow, wide, strict=True)]
        probe = self.tensors[::2]
        self.of_element = 0.0
        of_ops = self.increase(frozenset(), probe)
        self.of_element = 1.0
        converted = self.increase(frozenset(), probe) - of_ops
        self.of_element = max(cost(probe).time - cost(()).time - of_ops, 0.0) / max(converted, 1.0)

    def increase(self, wide: frozenset[str], more: Collection[str]) -> float:
        """Estimates the time that further tensors of 16 bits add to some."""
        changed = set[int]().union(*(self.affected[name] for name in more))
        both = wide.union(more)
        return sum(self._time(i, both) - self._time(i, wide) for i in changed)

    def _time(self, i: int, wide: frozenset[str]) -> float:
        """Estimates how much longer than in 8 bits a computation and conversions of its result take."""
        own, is_chosen = self._is_wide(i, wide), self.results[i] in wide
        widened = not is_chosen and any(self._is_wide(reader, wide) for reader in self.readers[i])
        conversions = (own and not is_chosen) + widened
        return own * self.more[i] + conversions * self.of_element * self.elements[i]

    def _is_wide(self, i: int, wide: frozenset[str]) -> bool:
        return self.has_form[i] and not self.around[i].isdisjoint(wide)

    def path(self, noise: Mapping[str, float]) -> Iterator[frozenset[str]]:
        """Yields growing sets of tensors, from none to all: each adds those with the most noise in 8 bits for the time
        that they add."""
        segments = dict.fromkeys(
            self.tensors[i : i + length] for length in LENGTHS for i in range(len(self.tensors))
        )
        known: dict[tuple[str, ...], float] = {}
        wide: frozenset[str] = frozenset()
        yield wide

        def gain(segment: tuple[str, ...]) -> float:
            if segment not in known:
                left = [name for name in segment if name not in wide]
                time, less = self.increase(wide, left), sum(noise[name] for name in left)
                known[segment] = less / time if time > 0 else inf
            return known[segment]

        while len(wide) < len(self.tensors):
            segments = {segment: None for segment in segments if not wide.issuperset(segment)}
            best = max(segments, key=gain)
            touched = set[int]().union(*(self.affected[name] for name in best))
            wide = wide.union(best)
            yield wide
            known = {
                segment: value
                for segment, value in known.items()
                if all(touched.isdisjoint(self.affected[name]) for name in segment)
            }

    def savings(self, wide: frozenset[str]) -> list[frozenset[str]]:
        """Returns parts of a set that may be left out, those that save most time first."""
        order = [name for name in self.tensors if name in wide]
        parts = dict.fromkeys(frozenset(order[i : i + n]) for n in LENGTHS for i in range(len(order)))
        saved = {part: self.increase(wide - part, part) for part in parts}
        return sorted((part for part in parts if saved[part] > 0), key=lambda part: -saved[part])


def _by_computation(computations: Sequence[Computation], by_op: Mapping[str, float]) -> list[float]:
    """Returns the time of the ops of each computation. Ops have the names of the nodes that they come from, with
    suffixes."""
    owners: dict[str, int] = {}
    for i, computation in enumerate(computations):
        for node in (*computation.calls, _observed(computation.result)):
            owners.setdefault(node.name, i)
    times = [0.0] * len(computations)
    for op, time in by_op.items():
        parts = op.split("_")
        prefixes = ("_".join(parts[:count]) for count in range(len(parts), 0, -1))
        owner = next((owners[prefix] for prefix in prefixes if prefix in owners), None)
        if owner is not None:
            times[owner] += time
    return times


def _observed(node: Node) -> Node:
    """Returns the node behind observers."""
    while node.op == "call_module":
        node = node.all_input_nodes[0]
    return node


def elements_of(node: Node) -> int:
    """Returns the elements of a tensor, observed or not."""
    value = fake_result(_observed(node))
    return prod(value.shape) if isinstance(value, Tensor) else 0
