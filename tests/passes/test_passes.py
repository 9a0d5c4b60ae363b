# SPDX-License-Identifier: Apache-2.0
"""Each pass on small graphs, written as text: before, ---, after."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pillion import passes
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.text import to_text
from pillion.ir.types import Shape, TensorType, Value
from pillion.ir.verify import verify_graph
from pillion.ops import Clamp, Reshape, Transpose, parse
from pillion.ops.example_values import random_like, value

CASES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_a_pass_rewrites_as_recorded(path: Path) -> None:
    """`name.what.txt`: the pass called `name` turns the first graph into the second."""
    before, after = (part.strip() + "\n" for part in path.read_text("utf-8").split("---\n"))
    one = getattr(passes, path.stem.split(".")[0])
    graph = verify_graph(parse(before))
    result = verify_graph(one(graph))
    assert to_text(result) == to_text(parse(after))
    assert to_text(one(result)) == to_text(result), "a pass has nothing to do after itself"
    inputs = [random_like(v) for v in graph.inputs]
    if all(v.is_quantized for op in graph for v in op.results):
        for one_output, other in zip(graph.reference(*inputs), result.reference(*inputs), strict=True):
            assert one_output.tobytes() == other.tobytes()


def movement(data: st.DataObject, x: Value, number: int) -> Op:
    """A transpose, a reshape (both of them often such that nothing moves), or a function of single elements."""
    rank = x.type.rank
    match data.draw(st.integers(0, 3)):
        case 0:
            order = tuple(data.draw(st.permutations(range(rank))))
            return Transpose(x=x, y=like(x, number, tuple(x.shape[a] for a in order)), order=order)
        case 1:
            shape = data.draw(
                st.sampled_from([x.shape, (*x.shape[:-2], math.prod(x.shape[-2:])), (*x.shape, 1)])
            )
            return Reshape(x=x, y=like(x, number, shape))
        case 2:
            return Clamp(x=x, y=like(x, number, x.shape), low=-50, high=70)
        case _:
            return Clamp(x=x, y=like(x, number, x.shape), low=-90, high=100)


def like(x: Value, number: int, shape: Shape) -> Value:
    return Value(f"v{number}", TensorType(shape, x.dtype, x.type.quant))


@pytest.mark.turns(3)
@settings(max_examples=300, deadline=None)
@given(st.data())
@pytest.mark.parametrize(
    "one", [passes.merge_movement, passes.hoist_transpose, passes.merge_duplicates], ids=lambda p: p.__name__
)
def test_programs_of_movement_keep_their_borders_and_their_answers(
    one: passes.Pass, data: st.DataObject
) -> None:
    """Whatever is an output besides being read, and where an output is only an input moved not at all."""
    x = value("x", data.draw(st.sampled_from([(2, 3), (1, 4, 2), (1, 3, 1, 2)])))
    made, ops = [x], []
    for number in range(data.draw(st.integers(1, 6))):
        ops.append(movement(data, data.draw(st.sampled_from([made[-1], *made[-2:]])), number))
        made.append(ops[-1].results[0])
    also = [v for v in made[1:-1] if data.draw(st.booleans())]
    outputs = data.draw(st.permutations([*also, made[-1]]))
    graph = verify_graph(Graph("g", (x,), tuple(ops), tuple(outputs)).without_dead_ops())
    result = verify_graph(one(graph))
    assert [v.name for v in result.inputs] == ["x"]
    assert [(v.name, v.type) for v in result.outputs] == [(v.name, v.type) for v in outputs]
    assert len(result.ops) <= len(graph.ops)
    sample = random_like(x)
    for before, after in zip(graph.reference(sample), result.reference(sample), strict=True):
        assert before.tobytes() == after.tobytes()


def test_every_pass_of_the_pipeline_is_documented() -> None:
    assert all((one.__doc__ or "").strip() for one in passes.PIPELINE)
