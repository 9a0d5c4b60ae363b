# SPDX-License-Identifier: Apache-2.0
"""What streams answer, compared with windows, or with one run over all of a signal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from pillion.ir.graph import Graph
from pillion.ir.stream_io import Streaming, StreamOutput, StreamOutputMeaning
from pillion.ir.types import Array, Value
from pillion.ops.example_values import random_like

Signals = list[Array]


def signals(graph: Graph, streaming: Streaming, runs: int, seed: int = 0) -> Signals:
    """Random frames for so many runs, for each input of the window's graph."""
    return [_signal(v, streaming, runs, seed + number) for number, v in enumerate(graph.inputs)]


def _signal(value: Value, streaming: Streaming, runs: int, seed: int) -> Array:
    fed = next(fed for fed in streaming.inputs if fed.name == value.name)
    shape = tuple(runs * fed.frames if a == fed.axis else d for a, d in enumerate(value.shape))
    return random_like(Value(value.name, replace(value.type, shape=shape)), seed)


def frames(
    graph: Graph, streaming: Streaming, held: Signals, first: Sequence[int], end: Sequence[int]
) -> Signals:
    """Some frames of each input."""
    feds = [next(fed for fed in streaming.inputs if fed.name == v.name) for v in graph.inputs]
    return [
        np.take(a, range(f, e), axis=fed.axis) for a, fed, f, e in zip(held, feds, first, end, strict=True)
    ]


def steps(graph: Graph, streaming: Streaming, held: Signals, runs: int) -> Iterator[Signals]:
    """The frames of each run."""
    sizes = [next(fed for fed in streaming.inputs if fed.name == v.name).frames for v in graph.inputs]
    for run in range(runs):
        yield frames(graph, streaming, held, [run * s for s in sizes], [(run + 1) * s for s in sizes])


def window(graph: Graph, streaming: Streaming, held: Signals, run: int) -> Signals | None:
    """The last window after so many runs, if there is one."""
    feds = [next(fed for fed in streaming.inputs if fed.name == v.name) for v in graph.inputs]
    ends = [run * fed.frames for fed in feds]
    firsts = [end - fed.window for end, fed in zip(ends, feds, strict=True)]
    return frames(graph, streaming, held, firsts, ends) if min(firsts) >= 0 else None


def newest(answer: StreamOutput, whole: Array) -> Array:
    """What of the window's answer is new."""
    if not answer.rows:
        return whole
    size = whole.shape[answer.axis]
    return np.take(whole, range(size - answer.rows, size), axis=answer.axis)


def require_windows(
    graph: Graph, streaming: Streaming, answers: Sequence[Sequence[Array]], held: Signals
) -> int:
    """Every answer from the first full window on has the bytes of the window's; how many were compared."""
    assert streaming.meaning is not StreamOutputMeaning.SIGNAL
    compared = 0
    for run, got in enumerate(answers, start=1):
        seen = window(graph, streaming, held, run)
        if seen is None or not got:
            assert seen is None, "no answer though the window is full"
            continue
        assert run >= max(a.first for a in streaming.answers), (
            "said to mean nothing though its window is full"
        )
        for answer, ours, whole in zip(streaming.answers, got, graph.reference(*seen), strict=True):
            assert np.array_equal(ours, newest(answer, whole)), (run, answer)
            compared += 1
    return compared


def in_reference(hop: Graph, given: Iterator[Signals]) -> list[Sequence[Array]]:
    """The answers of a hop's graph, run after run."""
    states, made = hop.initial, []
    for inputs in given:
        outputs, states = hop.reference_step(states, *inputs)
        made.append(outputs)
    return made
