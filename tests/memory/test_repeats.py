# SPDX-License-Identifier: Apache-2.0
"""Where values lie that go from step to step: in one place, unless somebody reads the old one after the new one is made."""

from __future__ import annotations

import numpy as np
import pytest

from fuzz.properties import host_is_the_reference
from pillion.emitters.c.actions import MoveRows, RolledLoop
from pillion.emitters.c.lower import lower
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, TensorType, Value, constant_value
from pillion.ir.verify import verify_graph
from pillion.ops import Add, Mul, Reshape, Scan

Q = PerTensor(0.05, 3)
STEPS, UNITS = 4, 5


def value(name: str, *shape: int) -> Value:
    return Value(name, TensorType(shape, DType.INT8, Q))


X, H, NEXT, Y = value("x", 1, UNITS), value("h", 1, UNITS), value("next", 1, UNITS), value("y", 1, UNITS)


def loop(ops: tuple[Op, ...], made: tuple[Value, ...] = (Y,), following: Value = NEXT) -> Graph:
    body = Graph("step", (X, H), ops, (*made, following))
    xs, last = value("xs", STEPS, 1, UNITS), value("last", 1, UNITS)
    stacked = tuple(value(f"all_{v.name}", STEPS, 1, UNITS) for v in made)
    begin = constant_value("begin", np.full((1, UNITS), 7, np.int8), Q)
    op = Scan(sequences=(xs,), initial=(begin,), invariants=(), ys=(*stacked, last), body=body, count=STEPS)
    return verify_graph(Graph("loop", (xs,), (op,), (*stacked, last)))


def moves_of_a_step(graph: Graph) -> int:
    (found,) = [item.what for item in lower(graph).items if isinstance(item.what, RolledLoop)]
    return sum(isinstance(part.what, MoveRows) for part in found.body)


CASES: dict[str, tuple[tuple[Op, ...], int]] = {
    "read before": ((Mul(a=H, b=X, y=Y), Add(a=Y, b=X, y=NEXT)), 1),
    "read by the op that makes the next one": ((Mul(a=X, b=X, y=Y), Add(a=H, b=Y, y=NEXT)), 1),
    "read after": ((Add(a=H, b=X, y=NEXT), Mul(a=NEXT, b=H, y=Y)), 2),
    "read under another shape after": (
        (
            Reshape(x=H, y=(flat := value("flat", UNITS))),
            Add(a=H, b=X, y=NEXT),
            Mul(a=NEXT, b=flat, y=Y),
        ),
        2,
    ),
    "never read": ((Add(a=X, b=X, y=NEXT), Mul(a=X, b=NEXT, y=Y)), 1),
}


@pytest.mark.parametrize(("ops", "moves"), CASES.values(), ids=CASES)
def test_carried_values_are_copied_only_if_necessary(ops: tuple[Op, ...], moves: int) -> None:
    graph = loop(ops)
    host_is_the_reference(graph)
    assert moves_of_a_step(graph) == moves  # one puts the element of the result away


def test_a_result_may_be_carried_and_stacked() -> None:
    graph = loop((Add(a=H, b=X, y=NEXT),), (NEXT,))
    host_is_the_reference(graph)


@pytest.mark.parametrize(
    ("ops", "made", "following", "rule"),
    [
        ((Add(a=H, b=X, y=Y),), (Y,), H, "each result of a step is computed by it"),
        ((Add(a=H, b=X, y=Y),), (Y,), value("other", 1, UNITS), "each result of a step is computed by it"),
        ((Add(a=H, b=X, y=Y),), (), value("next", 1, 3), "results are those of the inner graph"),
    ],
)
def test_invalid_loops_are_refused(
    ops: tuple[Op, ...], made: tuple[Value, ...], following: Value, rule: str
) -> None:
    with pytest.raises(PillionError) as caught:
        loop(ops, made, following)
    assert caught.value.rule == rule
