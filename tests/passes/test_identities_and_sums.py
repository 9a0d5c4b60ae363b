# SPDX-License-Identifier: Apache-2.0
"""What does nothing is left out; sums become means and products where an NPU wants that."""

from __future__ import annotations

import numpy as np
import pytest

from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.verify import verify_graph
from pillion.ops import AvgPool2d, MaxPool2d, Mean, Mul, Pad, ReduceSum, ResizeBilinear, ResizeNearest, Slice
from pillion.ops.example_values import make_op, random_like, value
from pillion.passes import rescale_sums
from pillion.passes.drop_identities import drop_identities

SHAPE = (1, 5, 7, 3)
OPTIONS: dict[type[Op], dict[str, object]] = {
    AvgPool2d: {},
    MaxPool2d: {},
    ResizeNearest: {"size": (5, 7)},
    ResizeBilinear: {"size": (5, 7), "half_pixel": True},
    Slice: {"begin": (0, 0, 0, 0), "step": (1, 1, 1, 1)},
    Pad: {"before": (0, 0, 0, 0), "after": (0, 0, 0, 0), "value": 0},
}


def between(cls: type[Op]) -> Graph:
    """A maximum over windows, the op, and another one."""
    x, middle, still, y = (value(name, SHAPE, 0.05, 3) for name in "xmsy")
    window = {"kernel": (3, 3), "stride": (1, 1), "padding": (1, 1, 1, 1)}
    first = make_op(MaxPool2d, middle, x=x, **window)
    op = make_op(cls, still, x=first.results[0], **OPTIONS[cls])
    last = make_op(MaxPool2d, y, x=op.results[0], **window)
    return verify_graph(Graph("g", (x,), (first, op, last), (last.results[0],)))


@pytest.mark.parametrize("cls", OPTIONS, ids=lambda cls: cls.kind)
def test_identities_are_dropped(cls: type[Op]) -> None:
    graph = between(cls)
    after = verify_graph(drop_identities(graph))
    assert [op.kind for op in after.ops] == ["max_pool2d", "max_pool2d"]
    x = random_like(graph.inputs[0])
    assert np.array_equal(graph.reference(x)[0], after.reference(x)[0])


def test_bounds_and_outputs_stay() -> None:
    x, y = value("x", SHAPE, 0.05, 3), value("y", SHAPE, 0.05, 3)
    alone = Graph("g", (x,), (make_op(AvgPool2d, y, x=x),), (y,))
    alone = alone.replace(outputs=alone.ops[0].results)
    assert drop_identities(alone).ops == alone.ops
    bounded = make_op(AvgPool2d, y, x=x, low=-5)
    end = make_op(MaxPool2d, value("z", SHAPE, 0.05, 3), x=bounded.results[0], kernel=(2, 2))
    graph = Graph("g", (x,), (bounded, end), (end.results[0],))
    assert drop_identities(graph).ops == graph.ops


@pytest.mark.parametrize("axes", [(1, 2), (3,), (1, 2, 3), (0, 1)])
@pytest.mark.parametrize("keepdims", [True, False])
def test_a_rescaled_sum_is_near_the_exact_one(axes: tuple[int, ...], keepdims: bool) -> None:
    x = value("x", (2, 5, 7, 3), 0.03, -11)
    op = make_op(ReduceSum, value("y", (), 0.2, 5), x=x, axes=axes, keepdims=keepdims)
    graph = verify_graph(Graph("g", (x,), (op,), (op.y,)))
    after = verify_graph(rescale_sums(graph))
    assert [type(one) for one in after.ops] == [Mean, Mul]
    assert after.ops[0].results[0].type.quant == x.type.quant
    for arithmetic in Arithmetic:
        sample = random_like(x, 3)
        exact, found = (
            g.replace(arithmetic=arithmetic).reference(sample)[0].astype(int) for g in (graph, after)
        )
        step_of_the_mean = 0.03 * op.count / 0.2
        assert abs(exact - found).max() <= step_of_the_mean / 2 + 1


def test_rescaling_keeps_sums_of_zero_and_of_files() -> None:
    x = value("x", (2, 1, 7), 0.03, -11)
    op = make_op(ReduceSum, value("y", (), 0.2, 5), x=x, axes=(1,))
    graph = verify_graph(Graph("g", (x,), (op,), (op.y,)))
    assert rescale_sums(graph).ops == graph.ops
    op = make_op(ReduceSum, value("y", (), 0.2, 5), x=x, axes=(2,))
    file = Graph("g", (x,), (op,), (op.y,), Arithmetic.TFLITE)
    assert rescale_sums(file).ops == file.ops
