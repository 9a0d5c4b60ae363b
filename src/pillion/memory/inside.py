# SPDX-License-Identifier: Apache-2.0
"""The RAM that an NPU needs for the tensors inside a segment, as far as the graph says it."""

from __future__ import annotations

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Value
from pillion.memory.events import is_alias
from pillion.ops import AvgPool2d, MaxPool2d


def segment_peak_bytes(body: Graph) -> int:
    """Returns the most bytes of tensors inside a segment that live at once; its inputs and outputs lie outside.

    NXP's converter (1.x) reserves just this as scratch memory for the chains of its published examples."""
    outside = {*body.inputs, *body.outputs}
    owner: dict[Value, Value] = {}
    last: dict[Value, int] = {}
    for number, op in enumerate(body.ops):
        if is_alias(op):
            owner[op.results[0]] = owner.get(op.operands[0], op.operands[0])
        for value in (*op.activations, *op.results):
            last[owner.get(value, value)] = number
    live: set[Value] = set()
    most = 0
    for number, op in enumerate(body.ops):
        live |= {owner.get(v, v) for v in op.results} - outside
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
