# SPDX-License-Identifier: Apache-2.0
"""Orders ops: each runs behind the ops that compute its operands."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from pillion.ir.op import Op
from pillion.ir.types import Value


def topological_order(
    ops: Sequence[Op], sources: Iterable[Value], flags: Mapping[Op, Iterable[Value]] | None = None
) -> list[Op]:
    """Returns the ops in topological order, otherwise in the order of the list. `flags` are values that some ops
    need besides their operands."""
    available = set(sources)
    missing = [{*op.activations, *(flags or {}).get(op, ())} - available for op in ops]
    readers: dict[Value, list[int]] = {}
    for number, values in enumerate(missing):
        for value in values:
            readers.setdefault(value, []).append(number)
    runnable = [number for number, values in enumerate(missing) if not values]  # in order: a heap
    ordered: list[Op] = []
    while runnable:
        op = ops[heapq.heappop(runnable)]
        ordered.append(op)
        for value in op.results:
            for number in readers.get(value, ()):
                missing[number].remove(value)
                if not missing[number]:
                    heapq.heappush(runnable, number)
    assert len(ordered) == len(ops), "no op needs its own result"
    return ordered
