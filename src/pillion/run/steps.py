# SPDX-License-Identifier: Apache-2.0
"""Steps of streams, for executors that are handed the states and hand them back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pillion.ir.graph import Graph
from pillion.ir.types import Array
from pillion.run.executor import Outputs, RunOptions, Samples

Step = Callable[..., tuple[Outputs, Sequence[Array]]]
"""Called with the states and the inputs of a step: gives the outputs, and the states afterwards."""


def steps(graph: Graph, samples: Samples, options: RunOptions, step: Step) -> Iterator[Outputs]:
    """Gives the outputs of each sample, with states that go on from one to the next in a stream."""
    states: Sequence[Array] = graph.initial
    for sample in samples:
        outputs, after = step(states, *sample)
        states = after if options.stream else graph.initial
        yield outputs
