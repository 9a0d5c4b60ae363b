# SPDX-License-Identifier: Apache-2.0
"""Quantifies the effect of another arithmetic than the model's own: on outputs, and op by op."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pillion.host_io.progress import stage
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array
from pillion.run.executor import RunOptions
from pillion.run.random_inputs import random_samples
from pillion.run.stream_steps import run_stream_steps

STREAM = RunOptions(stream=True)
MOST_INPUTS, LEAST_INPUTS = 16, 2
MOST_MACS = 200_000_000
"""The most multiply-accumulates of all inputs: the reference takes some seconds for them."""


@dataclass(frozen=True)
class OpChange:
    """One op whose results differ for equal operands."""

    op: Op
    elements: int
    different: int
    """The number of differing elements."""

    @property
    def share(self) -> float:
        """The fraction of differing elements."""
        return self.different / self.elements


@dataclass(frozen=True)
class ArithmeticChange:
    """The difference between a program's outputs in two arithmetics on the same random inputs."""

    own: Arithmetic
    """The arithmetic of the model's file or framework."""
    asked: Arithmetic
    inputs: int
    inputs_different: int
    elements: int
    different: int
    """The number of differing elements of all outputs."""
    largest: float
    """The largest difference of two elements, in units of the outputs."""
    ops: tuple[OpChange, ...]

    @property
    def text(self) -> str:
        """The result in a sentence."""
        if not self.different:
            return f"none of {self.elements:,} numbers on {self.inputs} random inputs"
        share = 100 * self.different / self.elements
        return (
            f"{self.different:,} of {self.elements:,} numbers ({share:.2g} %), on {self.inputs_different} of "
            f"{self.inputs} random inputs, by {self.largest:g} at most"
        )

    @property
    def ops_text(self) -> str:
        """The kinds of differing ops, with the worst op of each."""
        return (
            ", ".join(_summarize_op_kind(kind, self.ops) for kind in sorted({c.op.kind for c in self.ops}))
            or "no op"
        )


def _summarize_op_kind(kind: str, ops: Sequence[OpChange]) -> str:
    changes = [c for c in ops if c.op.kind == kind]
    most = max(changes, key=lambda c: c.share)
    return f"{len(changes)} {kind}, most in `{most.op.name}`: {100 * most.share:.2g} %"


def compare_arithmetics(
    graph: Graph, own: Arithmetic, inputs: int | None = None, seed: int = 0
) -> ArithmeticChange:
    """Compares a graph in its own and in the requested arithmetic on random inputs; by default as many as
    take a few seconds. With states they are one stream."""
    count = inputs or max(LEAST_INPUTS, min(MOST_INPUTS, MOST_MACS // max(graph.macs, 1)))
    samples = random_samples(graph, count, seed)
    as_it_was, counts = graph.replace(arithmetic=own), dict.fromkeys(graph.ops, 0)
    with stage("comparing arithmetics") as advance:
        outputs = run_stream_steps(graph, samples, STREAM, graph.reference_step)
        with_counts = functools.partial(_run_and_count_differences, as_it_was, graph.arithmetic, counts)
        pairs: list[list[tuple[Array, Array]]] = []
        for answer, original in zip(
            outputs, run_stream_steps(as_it_was, samples, STREAM, with_counts), strict=True
        ):
            pairs.append(list(zip(answer, original, strict=True)))
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


def _run_and_count_differences(
    graph: Graph, arithmetic: Arithmetic, counts: dict[Op, int], states: Sequence[Array], *inputs: Array
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Runs one step in the graph's own arithmetic and counts the elements that its ops would compute
    differently."""
    values = graph.reference_values(*inputs, states=states)
    for op in graph.ops:
        results = op.compute(arithmetic, values)
        counts[op] += sum(int(np.count_nonzero(array != values[v])) for v, array in results.items())
    return tuple(values[v] for v in graph.outputs), tuple(values[state.after] for state in graph.states)
