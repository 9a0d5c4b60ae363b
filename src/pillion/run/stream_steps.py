# SPDX-License-Identifier: Apache-2.0
"""Runs streams step by step, for executors with explicit states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Array
from pillion.run.executor import Outputs, RunOptions, RunResult, Samples

Step = Callable[..., tuple[Outputs, Sequence[Array]]]
"""Returns the outputs and the next states, from the states and inputs of a step."""


def run_stream_steps(graph: Graph, samples: Samples, options: RunOptions, step: Step) -> Iterator[Outputs]:
    """Yields the outputs of each sample; in a stream, states continue from one to the next."""
    states: Sequence[Array] = graph.initial
    for sample in samples:
        outputs, after = step(states, *sample)
        states = after if options.stream else graph.initial
        yield outputs


def run_by_reference(
    graph: Graph, samples: Samples, options: RunOptions, instead: Mapping[Op, Callable[..., object]] = {}
) -> list[RunResult]:
    """Returns the results of the reference, with other functions in the place of some ops."""
    step = partial(graph.reference_step, instead=instead)
    return [RunResult(made) for made in run_stream_steps(graph, samples, options, step)]
