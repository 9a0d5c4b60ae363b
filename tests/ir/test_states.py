# SPDX-License-Identifier: Apache-2.0
"""States in the graph: what they mean, how they are written, and what is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from pillion import passes
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.state import State
from pillion.ir.text import to_text
from pillion.ir.verify import verify_graph
from pillion.ops import KINDS, graph_json, parse
from pillion.ops.state_io import states_as_io
from stateful_graphs import KINDS_OF_ENDS, QUEUE, SHOWN, graph_of, same, signal

TEXTS = pytest.mark.parametrize("text", [QUEUE, KINDS_OF_ENDS, SHOWN], ids=["queue", "ends", "shown"])


def run(graph: Graph, steps: int = 5) -> list[tuple[np.ndarray, ...]]:
    """The outputs of each step from the reset on."""
    states, made = graph.initial, []
    for inputs in signal(graph, steps):
        outputs, states = graph.reference_step(states, *inputs)
        made.append(outputs)
    return made


def test_a_queue_gives_the_last_rows_of_the_stream() -> None:
    graph = graph_of(QUEUE)
    steps = signal(graph, 6)
    rows = [graph.initial[0][:, :1], graph.initial[0][:, 1:], *(x for (x,) in steps)]
    window = graph.producers[graph.outputs[0]].operands[0]
    states = graph.initial
    for number, inputs in enumerate(steps):
        values = graph.reference_values(*inputs, states=states)
        assert np.array_equal(values[window], np.concatenate(rows[number : number + 3], axis=1))
        _, states = graph.reference_step(states, *inputs)
        assert np.array_equal(states[0], np.concatenate(rows[number + 1 : number + 3], axis=1))
    assert same([graph.reference(*steps[0])], run(graph)[:1])


@TEXTS
def test_the_text_parses_back(text: str) -> None:
    graph = graph_of(text)
    again = verify_graph(parse(to_text(graph)))
    assert to_text(again) == to_text(graph)
    assert same(run(again), run(graph))


@TEXTS
def test_json_gives_the_same_graph(text: str) -> None:
    graph = graph_of(text)
    raw = graph_json.pack(graph, lambda array: None)
    again = graph_json.unpack(
        raw, graph_json.GraphSource(lambda number, size: np.zeros(size, np.uint8), KINDS)
    )
    assert to_text(again) == to_text(graph)


def test_json_without_states_is_as_it_was() -> None:
    assert b"states" not in graph_json.pack(
        dataclasses.replace(graph_of(QUEUE), states=()).with_states_as_io(), lambda a: None
    )


@TEXTS
def test_all_passes_keep_the_meaning(text: str) -> None:
    graph = graph_of(text)
    after = passes.run(graph, (*passes.PIPELINE, passes.int8_io))
    assert [s.name for s in after.states] == [s.name for s in graph.states]
    assert same(run(after), run(graph))


@TEXTS
def test_states_as_inputs_and_outputs(text: str) -> None:
    graph = graph_of(text)
    opened = verify_graph(states_as_io(graph))
    assert not opened.states
    held = graph.initial
    for inputs, wanted in zip(signal(graph, 5), run(graph), strict=True):
        made = opened.reference(*inputs, *held)
        held = made[len(graph.outputs) :]
        assert same([made[: len(graph.outputs)]], [wanted])
    assert len({v.name for v in opened.outputs}) == len(opened.outputs)


def test_a_state_that_is_quantized_as_it_was_dequantized_stays_in_integers() -> None:
    graph = graph_of("""graph g arithmetic=cmsis-nn
input x: float32[4]
state h reads h: float32[4] = [0.5, 0.24, -9.0, 0.0]
q: int8[4] @(0.1, 3) = quantize(x=x)
before: int8[4] @(0.1, 3) = quantize(x=h)
sum: int8[4] @(0.1, 3) = add(a=before, b=q) low=-128 high=127
y: float32[4] = dequantize(x=sum)
output y
state h becomes y
""")
    after = passes.int8_states(graph)
    (state,) = after.states
    assert state.before.dtype.value == "int8"
    assert state.initial.tolist() == [8, 5, -87, 3]
    assert [op.kind for op in after.ops] == ["quantize", "add", "dequantize"]
    xs = [[np.float32([0.1, -0.2, 3, 4]) * i] for i in range(4)]
    for one, other in ((graph, after),):
        held = [one.initial, other.initial]
        for x in xs:
            made = [g.reference_step(h, *x) for g, h in zip((one, other), held, strict=True)]
            assert same([made[0][0]], [made[1][0]])
            held = [states for _, states in made]


Change = Callable[[Graph], Graph]


def with_state(**changes: object) -> Change:
    return lambda graph: graph.replace(
        states=(dataclasses.replace(graph.states[0], **changes), *graph.states[1:])
    )  # type: ignore[arg-type]  # fields by name


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda g: g.replace(states=(*g.states, *g.states)), "two values are called"),
        (lambda g: g.replace(ops=g.ops[:1], outputs=(g.ops[0].results[0],)), "what it becomes is a result"),
        (lambda g: with_state(after=g.inputs[0])(g), "shape, element type and quantization"),
        (lambda g: with_state(after=g.outputs[0])(g), "shape, element type and quantization"),
    ],
)
def test_invalid_states_are_refused(change: Change, complaint: str) -> None:
    with pytest.raises(PillionError, match=complaint):
        verify_graph(change(graph_of(QUEUE)))


def test_a_state_begins_as_what_it_is() -> None:
    (state,) = graph_of(QUEUE).states
    with pytest.raises(ValueError, match="begins as"):
        State("rows", state.before, state.after, state.initial[:, 1:])


@pytest.mark.parametrize(
    "text",
    [
        QUEUE.replace("state rows becomes later\n", ""),
        QUEUE.replace("becomes later", "becomes nothing"),
        QUEUE.replace("becomes later", "is later"),
        QUEUE.replace("all -3", "all nothing"),
        QUEUE.replace("all -3", "all 300"),
    ],
)
def test_bad_text_is_refused(text: str) -> None:
    with pytest.raises(PillionError, match="does not parse"):
        parse(text)


def test_ops_of_states_are_not_dead() -> None:
    graph = graph_of(QUEUE)
    assert len(graph.without_dead_ops().ops) == 3
    assert [op.kind for op in graph.replace(states=(), inputs=graph.sources).without_dead_ops().ops] == [
        "concat",
        "lut",
    ]
