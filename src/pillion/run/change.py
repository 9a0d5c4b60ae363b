# SPDX-License-Identifier: Apache-2.0
"""What another arithmetic than the model's own changes, in numbers: outputs of the whole, and ops that answer otherwise."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array
from pillion.outside.progress import stage
from pillion.run.executor import RunOptions
from pillion.run.samples import random_samples
from pillion.run.steps import steps

STREAM = RunOptions(stream=True)
MOST_INPUTS, LEAST_INPUTS = 16, 2
MOST_MACS = 200_000_000
"""Of all inputs together: the reference takes some seconds for them."""


@dataclass(frozen=True)
class OpChange:
    """One op whose results differ though its operands are the same."""

    op: Op
    elements: int
    different: int
    """How many of the elements differ."""

    @property
    def share(self) -> float:
        """The part of its elements that differ."""
        return self.different / self.elements


@dataclass(frozen=True)
class ArithmeticChange:
    """How the outputs of one program in two arithmetics differ on random inputs, which are the same for both."""

    own: Arithmetic
    """That of the model, as its file or its framework has it."""
    asked: Arithmetic
    inputs: int
    inputs_different: int
    elements: int
    different: int
    """How many elements of all outputs differ."""
    largest: float
    """The largest difference of two elements, in what the outputs count in."""
    ops: tuple[OpChange, ...]

    @property
    def text(self) -> str:
        """Says it in a sentence."""
        if not self.different:
            return f"none of {self.elements:,} numbers on {self.inputs} random inputs"
        share = 100 * self.different / self.elements
        return (
            f"{self.different:,} of {self.elements:,} numbers ({share:.2g} %), on {self.inputs_different} of "
            f"{self.inputs} random inputs, by {self.largest:g} at most"
        )

    @property
    def ops_text(self) -> str:
        """Says which kinds of ops answer otherwise to the same operands, and in which of them most."""
        return (
            ", ".join(_in_short(kind, self.ops) for kind in sorted({c.op.kind for c in self.ops})) or "no op"
        )


def _in_short(kind: str, ops: Sequence[OpChange]) -> str:
    found = [c for c in ops if c.op.kind == kind]
    most = max(found, key=lambda c: c.share)
    return f"{len(found)} {kind}, most in `{most.op.name}`: {100 * most.share:.2g} %"


def change(graph: Graph, own: Arithmetic, inputs: int | None = None, seed: int = 0) -> ArithmeticChange:
    """Computes a graph in its own arithmetic and in the one that was asked for, on so many random inputs; without a number, on as many as a few
    seconds allow. Of a graph with states they are one stream."""
    count = inputs or max(LEAST_INPUTS, min(MOST_INPUTS, MOST_MACS // max(graph.macs, 1)))
    samples = random_samples(graph, count, seed)
    as_it_was, counts = graph.replace(arithmetic=own), dict.fromkeys(graph.ops, 0)
    with stage("comparing arithmetics") as advance:
        made = steps(graph, samples, STREAM, graph.reference_step)
        with_counts = functools.partial(_counted_step, as_it_was, graph.arithmetic, counts)
        pairs: list[list[tuple[Array, Array]]] = []
        for answer, other in zip(made, steps(as_it_was, samples, STREAM, with_counts), strict=True):
            pairs.append(list(zip(answer, other, strict=True)))
            advance(len(pairs), count)
    ops = tuple(
        OpChange(op, sum(v.type.elements for v in op.results) * count, different)
        for op, different in counts.items()
        if different
    )
    gaps = [[np.abs(a.astype(np.float64) - b.astype(np.float64)) for a, b in pair] for pair in pairs]
    return ArithmeticChange(
        own,
        graph.arithmetic,
        count,
        sum(any(gap.any() for gap in sample) for sample in gaps),
        sum(gap.size for sample in gaps for gap in sample),
        sum(int(np.count_nonzero(gap)) for sample in gaps for gap in sample),
        max((float(gap.max(initial=0)) for sample in gaps for gap in sample), default=0.0),
        ops,
    )


def _counted_step(
    graph: Graph, asked: Arithmetic, counts: dict[Op, int], states: Sequence[Array], *inputs: Array
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """One step of a graph in its own arithmetic; counts where its ops would answer otherwise to the same operands."""
    values = graph.reference_values(*inputs, states=states)
    for op in graph.ops:
        made = op.reference(asked, *(v.constant if v.is_constant else values[v] for v in op.operands))
        results = made if isinstance(made, tuple) else (made,)
        counts[op] += sum(
            int(np.count_nonzero(np.asarray(a) != values[v]))
            for a, v in zip(results, op.results, strict=True)
        )
    return tuple(values[v] for v in graph.outputs), tuple(values[state.after] for state in graph.states)
