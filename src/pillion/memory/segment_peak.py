# SPDX-License-Identifier: Apache-2.0
"""The RAM that an NPU needs for the tensors inside a segment, as far as the graph says it."""

from __future__ import annotations

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.memory.events import storage_roots
from pillion.ops import AvgPool2d, MaxPool2d


def segment_peak_bytes(body: Graph) -> int:
    """Returns the most bytes of tensors inside a segment that live at once; its inputs and outputs lie outside.

    NXP's converter (1.x) reserves just this as scratch memory for the chains of its published examples."""
    roots = storage_roots(body)
    outside = {*body.inputs, *body.outputs}
    last = {roots[v]: n for n, op in enumerate(body.ops) for v in (*op.activations, *op.results)}
    live: set[Value] = set()
    most = 0
    for number, op in enumerate(body.ops):
        results = {roots[v] for v in op.results}
        live |= results - outside
        ending = {v for v in live if last[v] == number}
        needed = _total_bytes(live)
        if not _reads_overlapping_windows(op):  # the results may lie over operands that end here
            needed -= min(_total_bytes(ending - set(op.results)), _total_bytes(set(op.results) & live))
        most = max(most, needed)
        live -= ending
    return most


def _total_bytes(values: set[Value]) -> int:
    return sum(value.type.size_bytes for value in values)


def _reads_overlapping_windows(op: Op) -> bool:
    """Returns whether results need operands that other results need, too."""
    return op.macs > 0 or isinstance(op, (AvgPool2d, MaxPool2d))
