# SPDX-License-Identifier: Apache-2.0
"""The text form: every example prints, parses back, and computes the same."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.text import to_text
from pillion.ir.verify import verify_graph
from pillion.ops import ALL_OPS, KINDS, Add, Clamp, Segment, graph_json, parse
from pillion.ops.example_values import random_like

EXAMPLES = [
    pytest.param(example, id=f"{cls.kind}-{i}") for cls in ALL_OPS for i, example in enumerate(cls.examples())
]


def alone(op: Op) -> Graph:
    return Graph("alone", op.activations, (op,), op.results)


@pytest.mark.parametrize("op", EXAMPLES)
def test_text_parses_back(op: Op) -> None:
    graph = verify_graph(alone(op))
    text = to_text(graph)
    again = verify_graph(parse(text))
    assert to_text(again) == text
    inputs = [random_like(v) for v in graph.inputs]
    for one, other in zip(graph.reference(*inputs), again.reference(*inputs), strict=True):
        assert one.tobytes() == other.tobytes()


def test_graphs_inside_of_ops_are_part_of_the_text() -> None:
    clamp = next(iter(Clamp.examples()))
    x, y = clamp.activations[0], clamp.results[0]
    outer = dataclasses.replace(x, name="outer"), dataclasses.replace(y, name="result")
    segment = Segment(xs=(outer[0],), ys=(outer[1],), body=alone(clamp), device="npu")
    graph = verify_graph(Graph("g", (outer[0],), (segment,), (outer[1],)))
    (again,) = verify_graph(parse(to_text(graph))).ops
    assert isinstance(again, Segment)
    assert to_text(again.body) == to_text(segment.body)
    assert (again.device, to_text(parse(to_text(graph)))) == ("npu", to_text(graph))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("y: int8[2] = nothing(x=x)", "no op is called `nothing`"),
        ("y: int8[2] = clamp(x=z)", "'z'"),
        ("y int8", "expected"),
        ("const c: int8[2] = base64:AAAA", ""),
        ("y: int8[2] @(nan, 0) = clamp(x=x)", "scale"),
    ],
)
def test_bad_text_names_its_line(line: str, complaint: str) -> None:
    with pytest.raises(PillionError, match="does not parse") as error:
        parse(f"graph g arithmetic=tflite\ninput x: int8[2] @(0.1, 0)\n{line}\n")
    assert "line 3" in str(error.value)
    assert complaint in str(error.value)


def test_ops_of_other_versions_are_named() -> None:
    """Earlier versions had an op of its own for 16-bit sums."""
    graph = alone(next(Add.examples()))
    with pytest.raises(PillionError, match="no op is called `wide_add`"):
        parse(to_text(graph).replace(" add(", " wide_add("))
    record = graph_json.pack(graph, lambda data: None).replace(b'"add"', b'"wide_add"')
    source = graph_json.GraphSource(lambda number, size: np.zeros(size, np.uint8), KINDS)
    with pytest.raises(PillionError, match="no op is called `wide_add`") as error:
        graph_json.unpack(record, source)
    assert error.value.help == "compile the model again"


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("y: int8[3] @(0.1, 0) = clamp(x=x)", "the result is int8[2]"),
        ("y: int8[2] @(0.2, 0) = transpose(x=x) order=(0,)", "share scale and zero point"),
        ("y: int8[2] @(0.1, 0) = transpose(x=x) order=(1,)", "permutation"),
        ("y: int8[2] @(0.1, 0) = concat(xs=[x]) axis=1", "all axes but 1"),
        ("x: int8[2] @(0.1, 0) = clamp(x=x)", "two values are called"),
        ("y: int8[2] @(0.1, 0) = clamp(x=x) low=5 high=4", "low is at most high"),
    ],
)
def test_the_verifier_refuses_with_the_rule(line: str, rule: str) -> None:
    graph = parse(
        f"graph g arithmetic=cmsis-nn\ninput x: int8[2] @(0.1, 0)\n{line}\noutput {line.split(':')[0]}\n"
    )
    with pytest.raises(PillionError) as error:
        verify_graph(graph)
    assert rule in str(error.value)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_graph_wants_an_array_for_each_input(count: int) -> None:
    op = next(op for op in Add.examples() if len(op.activations) == 2)
    graph = verify_graph(alone(op))
    with pytest.raises(PillionError, match="takes 2 inputs") as error:
        graph.reference(*[random_like(graph.inputs[0])] * count)
    assert error.value.here == f"{count} arrays"
