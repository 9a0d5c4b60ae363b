# SPDX-License-Identifier: Apache-2.0
"""Products that are read transposed are made transposed, and give the same bytes."""

from __future__ import annotations

import numpy as np
import pytest

from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Shape
from pillion.ir.verify import verify_graph
from pillion.ops import BatchMatmul, Reshape, Transpose
from pillion.ops.example_values import make_op, random_like, value
from pillion.passes.transpose_product import transpose_product

BATCH, ROWS, DEPTH, COLUMNS = 2, 6, 7, 5


def product(adj_x: bool, adj_y: bool) -> BatchMatmul:
    a = value("a", (BATCH, DEPTH, ROWS) if adj_x else (BATCH, ROWS, DEPTH), 0.05, -128)
    b = value("b", (BATCH, COLUMNS, DEPTH) if adj_y else (BATCH, DEPTH, COLUMNS), 0.04, 9)
    made = make_op(BatchMatmul, value("p", (), 1.1, 3), a=a, b=b, adj_x=adj_x, adj_y=adj_y, low=-90)
    assert isinstance(made, BatchMatmul)
    return made


def chain(
    first: BatchMatmul, shape: Shape | None, order: tuple[int, ...], *, read_twice: bool = False
) -> Graph:
    """The product, a reshape if there is a shape, and a transpose."""
    ops: list[Op] = [first]
    if shape:
        ops.append(Reshape(x=first.y, y=value("r", shape, 1.1, 3)))
    ops.append(make_op(Transpose, value("t", (), 1.1, 3), x=ops[-1].results[0], order=order))
    outputs = (ops[-1].results[0], *([first.y] if read_twice else []))
    return verify_graph(Graph("g", (first.a, first.b), tuple(ops), outputs))


def assert_same_bytes(before: Graph, after: Graph) -> None:
    inputs = [random_like(v) for v in before.inputs]
    verify_graph(after)
    for wanted, found in zip(before.reference(*inputs), after.reference(*inputs), strict=True):
        assert np.array_equal(wanted, found)


MOVES = [
    (None, (0, 2, 1)),
    ((BATCH, 2, 3, COLUMNS), (0, 3, 1, 2)),
    ((BATCH, ROWS, 1, COLUMNS), (0, 2, 3, 1)),
    ((BATCH, 2, 3, COLUMNS, 1), (0, 3, 4, 1, 2)),
]


@pytest.mark.parametrize(("shape", "order"), MOVES, ids=str)
@pytest.mark.parametrize("adjoint", [(False, False), (True, False), (False, True), (True, True)], ids=str)
def test_the_transpose_goes(adjoint: tuple[bool, bool], shape: Shape | None, order: tuple[int, ...]) -> None:
    before = chain(product(*adjoint), shape, order)
    after = transpose_product(before)
    assert not any(isinstance(op, Transpose) for op in after)
    assert_same_bytes(before, after)


@pytest.mark.parametrize(
    ("shape", "order"),
    [(None, (1, 2, 0)), ((BATCH, 2, 3, COLUMNS), (0, 2, 1, 3)), ((BATCH, 2, 3, COLUMNS), (0, 3, 2, 1))],
    ids=str,
)
def test_other_moves_stay(shape: Shape | None, order: tuple[int, ...]) -> None:
    graph = chain(product(False, False), shape, order)
    assert transpose_product(graph).ops == graph.ops


def test_a_product_that_is_read_elsewhere_stays() -> None:
    graph = chain(product(False, False), None, (0, 2, 1), read_twice=True)
    assert transpose_product(graph).ops == graph.ops
