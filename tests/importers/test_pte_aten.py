# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own operators of movement in a `.pte`, as others write them: read by their calls, they move what numpy moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pillion.devices.cortex_m import CORES
from pillion.emitters.pte import emit, lower
from pillion.emitters.pte.node import Arg, KernelCall, NodeView
from pillion.errors import PillionError
from pillion.importers.pte.container import Container
from pillion.importers.pte.foreign_program import graph_of
from pillion.ir.graph import Graph
from pillion.ops import Concat
from pillion.ops.example_values import random_like, value

SHAPE = (2, 3, 4, 5)
DATA = random_like(value("x", SHAPE))


def read_back(
    monkeypatch: pytest.MonkeyPatch, operator: str, args: tuple[Arg, ...], sizes: tuple[int, ...], xs: int = 1
) -> Graph:
    """The graph read from a program that makes one call, whose operands come first among its arguments."""
    inputs = tuple(value(f"x{i}", SHAPE) for i in range(xs))
    y = value("y", sizes)
    stand_in = Concat(xs=inputs, y=y, axis=0)  # says only what is read and what is made

    def view(v: Any) -> NodeView:
        return NodeView(v, v.dtype, v.shape, tuple(range(v.type.rank)))

    operands: tuple[Arg, ...] = (view(inputs[0]),) if xs == 1 else (tuple(map(view, inputs)),)
    monkeypatch.setattr(
        lower, "steps", lambda op, settings: [KernelCall(operator, (*operands, *args), view(y))]
    )
    monkeypatch.setattr(lower, "copies_as_reshapes", lambda graph: graph)
    raw = emit(Graph("g", inputs, (stand_in,), (y,)), CORES["cortex-m55"])
    return graph_of(Container(raw, "g"))


MOVES: list[tuple[str, tuple[Any, ...], Any]] = [
    *(("aten::select_copy.int_out", (axis, i), DATA.take(i, axis)) for axis in (0, 1, 3, -1, -3) for i in (0, 1, -1, -2)),
    *(
        ("aten::slice_copy.Tensor_out", (axis, begin, end, step), DATA[(slice(None),) * (axis % 4) + (slice(begin, end, step),)])
        for axis in (1, 3, -1)
        for begin, end, step in ((None, None, 1), (1, None, 1), (0, -1, 1), (-2, None, 1), (None, 99, 2), (1, 3, 2))
    ),
    *(
        ("aten::transpose_copy.int_out", (a, b), DATA.swapaxes(a, b))
        for a, b in ((0, 1), (1, 3), (-1, -2), (2, 2), (-4, 3))
    ),
    *(
        ("aten::permute_copy.out", (order,), DATA.transpose(order))
        for order in ((0, 2, 3, 1), (3, 2, 1, 0), (0, -1, 1, 2), (-4, -3, -2, -1))
    ),
    ("aten::expand_copy.out", ((2, 3, 4, 5), False), DATA),
    ("aten::expand_copy.out", ((3, 2, 3, 4, 5), False), np.broadcast_to(DATA, (3, *SHAPE))),
    ("aten::expand_copy.out", ((3, -1, -1, -1, -1), False), np.broadcast_to(DATA, (3, *SHAPE))),
    ("aten::unsqueeze_copy.out", (1,), DATA[:, None]),
    ("aten::view_copy.out", ((6, 20),), DATA.reshape(6, 20)),
    ("aten::clone.out", (None,), DATA),
]  # fmt: skip


@pytest.mark.parametrize(
    ("operator", "args", "wanted"), MOVES, ids=[f"{o.split('::')[1]}-{a}" for o, a, _ in MOVES]
)
def test_the_same_elements_move(
    operator: str, args: tuple[Any, ...], wanted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = read_back(monkeypatch, operator, args, wanted.shape)
    (found,) = graph.reference(DATA.reshape(graph.inputs[0].shape))
    assert found.tobytes() == np.ascontiguousarray(wanted).tobytes()


@pytest.mark.parametrize("axis", [0, 2, 3, -1, -4])
def test_three_side_by_side(axis: int, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [DATA, DATA[::-1].copy(), DATA + 1]
    wanted = np.concatenate(parts, axis)
    graph = read_back(monkeypatch, "aten::cat.out", (axis,), wanted.shape, xs=3)
    (found,) = graph.reference(*(x.reshape(v.shape) for x, v in zip(parts, graph.inputs, strict=True)))
    assert found.tobytes() == wanted.tobytes()


REFUSED: list[tuple[str, tuple[Any, ...], tuple[int, ...], str]] = [
    ("aten::select_copy.int_out", (1, 3), (2, 4, 5), "inside the axis"),
    ("aten::select_copy.int_out", (1, -4), (2, 4, 5), "inside the axis"),
    ("aten::select_copy.int_out", (4, 0), (2, 3, 4), "ax"),
    ("aten::select_copy.int_out", (-5, 0), (2, 3, 4), "ax"),
    ("aten::slice_copy.Tensor_out", (1, 0, 3, 0), SHAPE, "a step, from 1 to"),
    ("aten::slice_copy.Tensor_out", (1, 2, 1, 1), SHAPE, "something is left"),
    ("aten::slice_copy.Tensor_out", (1, 0, 2, 1), SHAPE, "the result has sizes"),
    ("aten::permute_copy.out", ((0, 1, 2, 2),), SHAPE, "."),
    ("aten::expand_copy.out", ((2, 3, 4, 10), False), (2, 3, 4, 10), "sizes are 1"),
]


@pytest.mark.parametrize(
    ("operator", "args", "sizes", "words"), REFUSED, ids=[f"{o.split('::')[1]}-{a}" for o, a, _, _ in REFUSED]
)
def test_empty_results_are_refused(
    operator: str, args: tuple[Any, ...], sizes: tuple[int, ...], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PillionError, match=words):
        read_back(monkeypatch, operator, args, sizes)
