# SPDX-License-Identifier: Apache-2.0
"""Random programs as streams, along every axis of every input that lets them: what is not refused answers what the window would."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fuzz.choices import Choices
from pillion.compile_options import Stream
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.lower import lower
from pillion.emitters.c.model_source import model_c
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.stream_io import StreamOutputMeaning
from pillion.ir.text import to_text
from pillion.ir.verify import verify_graph
from pillion.ops import parse
from pillion.program import Program
from pillion.run.executor import RunOptions
from pillion.run.host_executor import HostExecutor
from pillion.streams.to_stream import to_stream_graph
from pillion.targets import find_target
from streams.stream_checks import in_reference, require_windows, signals, steps
from streams.time_nets import drawn, smallest_window

RUNS_BEYOND = 5
"""Runs after the first full window."""


def over_time(choices: Choices, arithmetic: Arithmetic) -> Graph:
    """A network that streams are made for."""
    net = drawn(choices, causal=choices.one_in(3), layers=6)
    frames = smallest_window(net, choices.integer(8, 40))
    assert frames is not None
    return verify_graph(net.graph(frames).replace(arithmetic=arithmetic))


def hops(graph: Graph) -> Iterator[Graph]:
    """The streams that can be made of a program; each is refused or verified."""
    for value in graph.inputs:
        others = [v for v in graph.inputs if v is not value]
        for axis, size in enumerate(value.shape):
            for hop in (1, 2) if size > 2 else ():
                same = tuple((v.name, axis) for v in others if v.type.rank > axis and v.shape[axis] == size)
                try:
                    yield to_stream_graph(graph, Stream(((value.name, axis), *same), hop))
                except PillionError as refusal:
                    if not (refusal.rule and refusal.here and refusal.help):
                        raise


def fed_whole(graph: Graph, hop: Graph) -> bool:
    """Whether all inputs are streamed: others have no frames to be compared with windows."""
    assert hop.streaming is not None
    return len(hop.streaming.inputs) == len(graph.inputs)


def streams_keep_the_bytes(graph: Graph) -> None:
    for hop in hops(graph):
        streaming = hop.streaming
        assert streaming is not None
        assert to_text(verify_graph(parse(to_text(hop)))) == to_text(hop)
        if not fed_whole(graph, hop):
            continue
        runs = -(-streaming.inputs[0].window // streaming.inputs[0].frames) + RUNS_BEYOND
        held = signals(graph, streaming, runs)
        answers = in_reference(hop, steps(graph, streaming, held, runs))
        if streaming.meaning is not StreamOutputMeaning.SIGNAL:
            assert require_windows(graph, streaming, answers, held) >= RUNS_BEYOND


def streams_as_c_keep_the_bytes(graph: Graph, target: str = "cortex-m55") -> None:
    """The last of the streams, on this computer; and all of them have a memory plan for every core."""
    last = None
    for hop in hops(graph):
        for isa in (Isa.PORTABLE, Isa.DSP, Isa.MVE):
            assert f"int {graph.name}_hop(" in model_c(lower(hop, isa)) or not hop.states
        last = hop if fed_whole(graph, hop) else last
    if last is None or last.streaming is None:
        return
    given = list(steps(graph, last.streaming, signals(graph, last.streaming, 12), 12))
    results = HostExecutor().run(Program(last, find_target(target)), given, RunOptions(stream=True))
    for ours, theirs in zip(in_reference(last, iter(given)), results, strict=True):
        for one, other in zip(ours, theirs.outputs, strict=True):
            assert np.array_equal(one, other), "host C"
