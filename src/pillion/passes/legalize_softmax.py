# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pillion.ir.graph import Graph
from pillion.ir.types import Value
from pillion.ops import Softmax
from pillion.ops.movement import Movement
from pillion.ops.reduce import ExtremumReduction
from pillion.ops.softmax import OUTPUT, OUTPUT_OF_8_BITS
from pillion.ops.softmax16 import OUTPUT_16


def legalize_softmax(graph: Graph) -> Graph:
    """Gives softmax results the step 1/256 that other runtimes require; in 16 bits, LiteRT's step."""
    known_steps = (OUTPUT, OUTPUT_16, OUTPUT_OF_8_BITS, None)
    fine = {op.y for op in graph.ops if isinstance(op, Softmax) and op.y.type.quant not in known_steps}
    ties, known = list(_values_sharing_quant(graph)), 0
    while known < len(fine):
        known = len(fine)
        for tie in ties:
            fine |= tie if tie & fine else frozenset()
    replacements = {value: replace(value, type=replace(value.type, quant=OUTPUT)) for value in fine}
    return graph.substitute(replacements) if replacements else graph


def _values_sharing_quant(graph: Graph) -> Iterator[frozenset[Value]]:
    """Yields groups of values that share their parameters: results of moves and extrema, and states."""
    for op in graph.ops:
        if isinstance(op, (Movement, ExtremumReduction)):
            yield frozenset((*op.operands, *op.results))
    for state in graph.states:
        yield frozenset((state.before, state.after))
