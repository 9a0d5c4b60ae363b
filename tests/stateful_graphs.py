# SPDX-License-Identifier: Apache-2.0
"""Small graphs that remember something from run to run."""

from __future__ import annotations

import numpy as np

from pillion.ir.graph import Graph
from pillion.ir.types import Array
from pillion.ir.verify import verify_graph
from pillion.ops import parse
from pillion.ops.example_values import random_like
from pillion.program import Program
from pillion.targets import find_target

QUEUE = """graph queue arithmetic=cmsis-nn
input x: int8[1, 1, 3, 5] @(0.1, -3)
state rows reads rows: int8[1, 2, 3, 5] @(0.1, -3) = all -3
window: int8[1, 3, 3, 5] @(0.1, -3) = concat(xs=[rows, x]) axis=1
later: int8[1, 2, 3, 5] @(0.1, -3) = slice(x=window) begin=(0, 1, 0, 0) step=(1, 1, 1, 1)
y: int8[1, 3, 3, 5] @(0.2, 3) = lut(x=window) function=abs alpha=0.0 low=-inf high=inf
output y
state rows becomes later
"""
"""The last rows of a stream, made in their own place."""

KINDS_OF_ENDS = """graph ends arithmetic=cmsis-nn
input x: int8[13] @(0.1, -3)
state left reads left: int8[13] @(0.1, -3) = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]
state right reads right: int8[13] @(0.1, -3) = [-1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -11, -12, -13]
state last reads last: int8[13] @(0.1, -3) = all 127
state total reads total: int8[13] @(0.1, -3) = all -128
state shown reads shown: int8[13] @(0.1, -3) = all 5
state same reads same: int8[13] @(0.1, -3) = all 9
state folded reads folded: int8[13, 1] @(0.1, -3) = all 1
state once reads once: int8[13] @(0.1, -3) = all 2
state never_read reads never: int8[13] @(0.1, -3) = all 2
state real reads real: float32[3] = [1.5, -0.25, 1e-30]
const fixed: int8[13] @(0.1, -3) = [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, -1, -2, -3]
sum: int8[13] @(0.1, -3) = add(a=total, b=x) low=-128 high=127
early: int8[13] @(0.1, -3) = clamp(x=last) low=-100 high=100
made: int8[13] @(0.1, -3) = add(a=shown, b=right) low=-128 high=127
late: int8[13] @(0.2, 0) = mul(a=total, b=same) low=-128 high=127
flat: int8[13] @(0.1, -3) = reshape(x=folded)
next_flat: int8[13] @(0.1, -3) = add(a=flat, b=early) low=-128 high=127
next_folded: int8[13, 1] @(0.1, -3) = reshape(x=next_flat)
both: int8[13] @(0.1, -3) = add(a=once, b=left) low=-128 high=127
levels: int8[3] @(0.1, 7) = quantize(x=real)
shrunk: int8[3] @(0.05, -9) = lut(x=levels) function=tanh alpha=0.0 low=-inf high=inf
again: float32[3] = dequantize(x=shrunk)
output made
output late
output both
output levels
state left becomes right
state right becomes left
state last becomes x
state total becomes sum
state shown becomes made
state same becomes same
state folded becomes next_folded
state once becomes fixed
state never_read becomes early
state real becomes again
"""
"""All that a state may become: another state, an input, what is read later, an output, itself, another shape, a constant, floats."""


SHOWN = """graph shown arithmetic=cmsis-nn
input x: int8[3, 4] @(0.1, -3)
state h reads h: int8[3, 4] @(0.1, -3) = all 7
state s reads s: int8[] @(0.1, -3) = [5]
flat: int8[12] @(0.1, -3) = reshape(x=h)
y: int8[12] @(0.2, 3) = lut(x=flat) function=abs alpha=0.0 low=-inf high=inf
again: int8[3, 4] @(0.1, -3) = clamp(x=x) low=-90 high=80
next: int8[] @(0.1, -3) = clamp(x=s) low=-90 high=80
output h
output flat
output y
output s
state h becomes again
state s becomes next
"""
"""Outputs that are what states were, one of them without axes."""


def graph_of(text: str) -> Graph:
    """The graph of a text, verified."""
    return verify_graph(parse(text))


def program_of(text: str, target: str = "cortex-m33") -> Program:
    """A program of a text, for a core."""
    return Program(graph_of(text), find_target(target))


def signal(graph: Graph, steps: int, seed: int = 0) -> list[list[Array]]:
    """Inputs of so many steps, none like the other."""
    rng = np.random.default_rng(seed)
    first = [random_like(v) for v in graph.inputs]
    return [[rng.permutation(x.ravel()).reshape(x.shape) for x in first] for _ in range(steps)]


def same(some: object, others: object) -> bool:
    """Whether two lists of outputs are equal byte for byte."""
    return [[y.tobytes() for y in ys] for ys in some] == [[y.tobytes() for y in ys] for ys in others]  # type: ignore[attr-defined]  # of outputs
