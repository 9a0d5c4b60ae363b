# SPDX-License-Identifier: Apache-2.0
"""Random networks over time as streams: the bytes of the window or, with padding in front, of one run over the whole signal."""

from __future__ import annotations

import numpy as np
import pytest

from fuzz.choices import from_seed
from nightly import seeds
from pillion.compile_options import Stream
from pillion.ir.graph import Graph
from pillion.ir.stream_io import Streaming, StreamOutput, StreamOutputMeaning
from pillion.ir.text import to_text
from pillion.ir.types import Array
from pillion.ir.verify import verify_graph
from pillion.ops import parse
from pillion.streams.to_stream import to_stream_graph
from streams.stream_checks import in_reference, newest, require_windows, signals, steps
from streams.time_nets import HEADS, Layer, TimeNet, drawn, smallest_window


def stream_of(net: TimeNet, graph: Graph, hop: int) -> tuple[Graph, Streaming]:
    made = to_stream_graph(graph, Stream((("x", net.axis),), hop))
    assert made.streaming is not None
    return verify_graph(parse(to_text(made))), made.streaming


@pytest.mark.parametrize("seed", seeds(24))
def test_random_streams_equal_the_window(seed: int) -> None:
    choices = from_seed(seed)
    net = drawn(choices, causal=False, head=HEADS[seed % len(HEADS)])
    frames = smallest_window(net, choices.integer(9, 30))
    assert frames is not None
    graph = verify_graph(net.graph(frames))
    hop, streaming = stream_of(net, graph, choices.pick((1, 2, 3)))
    runs = -(-frames // streaming.inputs[0].frames) + 12
    held = signals(graph, streaming, runs, seed)
    answers = in_reference(hop, steps(graph, streaming, held, runs))
    assert require_windows(graph, streaming, answers, held) >= 12


@pytest.mark.parametrize("seed", [100 + seed for seed in seeds(24)])
def test_causal_streams_equal_one_run_over_the_signal(seed: int) -> None:
    choices = from_seed(seed)
    net = drawn(choices, causal=True, head="rows")
    frames = smallest_window(net, 108)  # a multiple of all strides
    assert frames is not None
    graph = verify_graph(net.graph(frames))
    hop, streaming = stream_of(net, graph, choices.pick((1, 2)))
    runs = 20
    held = signals(graph, streaming, runs, seed)
    answers = in_reference(hop, steps(graph, streaming, held, runs))
    if streaming.meaning is not StreamOutputMeaning.SIGNAL:
        require_windows(graph, streaming, answers, held)
    if streaming.meaning is StreamOutputMeaning.WINDOW:  # there is no padding at all
        return
    (answer,) = streaming.answers
    assert answer.first == 1
    rows = np.concatenate([got for (got,) in answers], axis=answer.axis)
    fed = streaming.inputs[0]
    (whole,) = verify_graph(net.graph(runs * fed.frames)).reference(held[0])
    assert np.array_equal(rows, np.take(whole, range(rows.shape[answer.axis]), axis=answer.axis))


def test_a_head_sees_the_last_rows_of_the_signal() -> None:
    """A mean over a window of rows that are those of one run over the signal."""
    seen = 0
    for seed in range(40):
        net = drawn(from_seed(seed), causal=True, head="mean", layers=3)
        if any(layer.stride > 1 for layer in net.layers):
            continue
        graph = verify_graph(net.graph(24))
        hop, streaming = stream_of(net, graph, 1)
        if streaming.meaning is not StreamOutputMeaning.SIGNAL:
            continue
        seen += 1
        held = signals(graph, streaming, 40, seed)
        answers = in_reference(hop, steps(graph, streaming, held, 40))
        values = net.graph(40).reference_values(held[0])
        whole = next(array for value, array in values.items() if value.name == graph.outputs[0].name)
        assert streaming.answers[1].first == 24
        for run in range(24, 41):
            rows = np.take(whole, range(run - 24, run), axis=net.axis)
            assert np.array_equal(answers[run - 1][1], mean_of(graph, rows)), (seed, run)
    assert seen > 5


def mean_of(graph: Graph, rows: Array) -> Array:
    return graph.producers[graph.outputs[1]].reference(graph.arithmetic, rows)


def test_causal_nets_without_visible_padding_are_windows() -> None:
    """The last row alone, with a receptive field inside the window."""
    for seed in range(30):
        net = drawn(from_seed(seed), causal=True, head="last", layers=2)
        if any(layer.stride > 1 for layer in net.layers):
            continue
        graph = verify_graph(net.graph(30))
        hop, streaming = stream_of(net, graph, 1)
        assert streaming.meaning is not StreamOutputMeaning.SIGNAL
        held = signals(graph, streaming, 40, seed)
        assert (
            require_windows(graph, streaming, in_reference(hop, steps(graph, streaming, held, 40)), held)
            == 11
        )


def test_a_receptive_field_beyond_the_window() -> None:
    """A causal net that was exported for fewer frames than it remembers."""
    layers = tuple(Layer("conv", 3, 1, dilation, 4, dilation) for dilation in (1, 4, 9))
    net = TimeNet(layers, 1, 3, 1, True, "rows", 5)
    graph = verify_graph(net.graph(6))
    hop, streaming = stream_of(net, graph, 1)
    assert streaming.meaning is StreamOutputMeaning.SIGNAL
    assert sum(state.bytes for state in hop.states) == 2 * 3 + 8 * 4 + 18 * 4
    held = signals(graph, streaming, 50)
    rows = np.concatenate([got for (got,) in in_reference(hop, steps(graph, streaming, held, 50))], axis=1)
    (whole,) = net.graph(50).reference(held[0])
    assert np.array_equal(rows, whole)


def test_new_rows_of_an_answer() -> None:
    value = np.arange(12).reshape(1, 6, 2)
    assert newest(StreamOutput("y", 1, 2, 1), value).ravel().tolist() == [8, 9, 10, 11]
    assert newest(StreamOutput("y", 1), value) is value
