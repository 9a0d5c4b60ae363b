# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pillion.ir.graph import Graph
from pillion.ir.types import Value
from pillion.ops import Softmax
from pillion.ops.movement import Movement
from pillion.ops.softmax import OUTPUT


def usual_softmaxes(graph: Graph) -> Graph:
    """Gives results of softmaxes the steps of 1/256 that other runtimes fix. Who reads them scales them, and takes these steps, too."""
    fine = {op.y for op in graph.ops if isinstance(op, Softmax) and op.y.type.quant not in (OUTPUT, None)}
    ties, known = list(_ties(graph)), 0
    while known < len(fine):
        known = len(fine)
        for tie in ties:
            fine |= tie if tie & fine else frozenset()
    usual = {value: replace(value, type=replace(value.type, quant=OUTPUT)) for value in fine}
    return graph.substitute(usual) if usual else graph


def _ties(graph: Graph) -> Iterator[frozenset[Value]]:
    """Values that have the same parameters: what is moved, and what is kept from run to run."""
    for op in graph.ops:
        if isinstance(op, Movement):
            yield frozenset((*op.operands, *op.results))
    for state in graph.states:
        yield frozenset((state.before, state.after))
