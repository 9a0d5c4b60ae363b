# SPDX-License-Identifier: Apache-2.0
"""Sums in 16 bits against real numbers, and the same in 8 for those who have no others."""

from __future__ import annotations

import numpy as np
import pytest

from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType, PerTensor, TensorType, Value
from pillion.ir.verify import verify_graph
from pillion.ops import Add, Normalize, WideAdd
from pillion.ops.example_values import make_op, random_like, value
from pillion.passes import demote_sums


def wide(name: str, shape: tuple[int, ...], scale: float, zero_point: int = 0) -> Value:
    return Value(name, TensorType(shape, DType.INT16, PerTensor(scale, zero_point)))


@pytest.mark.parametrize("op", list(WideAdd.examples()), ids=lambda op: f"{op.a!r} {op.b!r}")
def test_examples_are_the_nearest_integers(op: WideAdd) -> None:
    for seed in range(5):
        a, b = random_like(op.a, seed), random_like(op.b, seed + 50)
        first, second = (v.scale * (x.astype(float) - v.zero_point) for v, x in ((op.a, a), (op.b, b)))
        real = first + op.sign * second
        wanted = np.clip(real / op.y.scale + op.y.zero_point, *op.y.dtype.bounds)
        assert np.abs(op.reference(Arithmetic.CMSIS_NN, a, b) - wanted).max() < 0.5005


def test_it_saturates_at_both_ends() -> None:
    op = make_op(WideAdd, wide("y", (), 1e-4), a=wide("a", (1, 2), 1.0, -(2**15)), b=value("b", (1, 2)))
    ends = np.array([[2**15 - 1, -(2**15)]], np.int16)
    assert op.reference(Arithmetic.CMSIS_NN, ends, np.array([[0, -128]], np.int8)).tolist() == [
        [32767, -32768]
    ]


@pytest.mark.parametrize("types", [(DType.INT8,) * 3, (DType.INT16, DType.INT32, DType.INT16)])
def test_one_of_16_bits_and_nothing_else(types: tuple[DType, ...]) -> None:
    a, b, y = (Value(n, TensorType((2,), t, PerTensor(0.1))) for n, t in zip("aby", types, strict=True))
    with pytest.raises(PillionError, match="int8 or int16, and one of them is int16"):
        WideAdd(a=a, b=b, y=y).check()


def test_the_sign_is_one_or_minus_one() -> None:
    a, b, y = (wide(name, (2,), 0.1) for name in "aby")
    with pytest.raises(PillionError, match="1 or -1"):
        WideAdd(a=a, b=b, y=y, sign=2).check()


def test_scales_without_a_multiplier_are_said() -> None:
    op = make_op(WideAdd, wide("y", (), 1e-12), a=wide("a", (2,), 1.0), b=wide("b", (2,), 1.0))
    with pytest.raises(ValueError, match="of the result's"):
        op.check_scales(Arithmetic.CMSIS_NN)


@pytest.mark.parametrize("zero_point", [-(2**15), 0, 700, 2**15 - 1])
def test_sums_of_8_bits_mean_the_same(zero_point: int) -> None:
    """A chain of two sums, each of which a norm reads: after the pass no tensor has 16 bits, and all are near what they were."""
    x, z = value("x", (3, 8), 0.05), value("z", (3, 8), 0.02)
    first = WideAdd(a=x, b=z, y=wide("s", (3, 8), 0.0002, zero_point // 2))
    second = WideAdd(a=first.y, b=x, y=wide("t", (3, 8), 0.0004, zero_point // 2))
    norms = [Normalize(x=s.y, y=value(f"n{i}", (3, 8), 0.03), axis=1) for i, s in enumerate((first, second))]
    graph = Graph("g", (x, z), (first, second, *norms), tuple(n.y for n in norms))
    narrow = verify_graph(demote_sums(verify_graph(graph, "before")), "after")
    assert [type(op) for op in narrow.ops] == [Add, Add, Normalize, Normalize]
    assert {v.dtype for v in narrow.values.values()} == {DType.INT8}
    assert demote_sums(narrow) is narrow
    inputs = [(random_like(v) // 4).astype(np.int8) for v in (x, z)]
    for a, b in zip(graph.reference(*inputs), narrow.reference(*inputs), strict=True):
        assert np.abs(a.astype(int) - b).max() <= 3
