# SPDX-License-Identifier: Apache-2.0
"""Keys of equal parts of a graph: repeated blocks have the same stripes, at the same cost."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cache

from pillion.emitters.c.kernel_choice import KernelChoice
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import PerTensor, Value

PartKey = tuple[int, ...]
"""A key of consecutive ops: equal keys have equal ops, wiring and lifetimes."""


class PartKeys:
    """The keys of all parts of one graph, made where they are asked for."""

    def __init__(
        self, graph: Graph, choices: Sequence[KernelChoice], last: Mapping[Value, int], fed: Value | None
    ) -> None:
        self.graph, self.choices, self.last, self.fed = graph, choices, last, fed
        self._numbers: dict[Hashable, int] = {}
        self._ops = [self._number(self._op_key(i, op)) for i, op in enumerate(graph.ops)]
        self.of = cache(self._key_of)

    def _key_of(self, first: int, end: int) -> PartKey:
        """Returns the key of the ops from `first` to before `end`: the number of each op, then for each operand and
        result its first appearance and whether it is needed later."""
        seen: dict[Value, int] = {}
        key = list(self._ops[first:end])
        for op in self.graph.ops[first:end]:
            for value in (*op.activations, *op.results):
                place = seen.setdefault(value, len(seen))
                key.append(4 * place + 2 * (self.last.get(value, -1) >= end) + (value is self.fed))
        return tuple(key)

    def _op_key(self, i: int, op: Op) -> Hashable:
        """Returns everything that decides the tiling and cost of an op: its attributes, tensors and kernel."""
        tensors = tuple(
            (v.shape, v.dtype, v.is_constant, _zero_point(v)) for v in (*op.operands, *op.results)
        )
        return (op.kind, repr(op.attributes), tensors, self.choices[i].kernel.name)

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _zero_point(value: Value) -> int | None:
    """Returns the zero point of an activation; results at the least value need no exact negative sums."""
    quant = value.type.quant
    return quant.zero_point if isinstance(quant, PerTensor) and not value.is_constant else None
