# SPDX-License-Identifier: Apache-2.0
"""Products and functions in 16 bits against real numbers, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType, PerTensor, TensorType, Value, constant_value
from pillion.ir.verify import verify_graph
from pillion.ops import Function, Lut, Mul, Scan, WideAdd, WideLut, WideMul
from pillion.ops.example_values import make_op, random_like, value
from pillion.ops.lut import REAL
from pillion.ops.wide_lut import ENTRIES, NAMED
from pillion.passes import demote_sums

CMSIS = Arithmetic.CMSIS_NN


def wide(name: str, shape: tuple[int, ...], scale: float, zero_point: int = 0) -> Value:
    return Value(name, TensorType(shape, DType.INT16, PerTensor(scale, zero_point)))


@pytest.mark.parametrize("op", list(WideMul.examples()), ids=lambda op: f"{op.a!r} {op.b!r}")
def test_products_are_near_real_ones(op: WideMul) -> None:
    """Half a step, and what the multiplier is rounded by: of 65,536 steps one at most."""
    for seed in range(5):
        a, b = random_like(op.a, seed), random_like(op.b, seed + 50)
        first, second = (v.scale * (x.astype(float) - v.zero_point) for v, x in ((op.a, a), (op.b, b)))
        wanted = np.clip(first * second / op.y.scale + op.y.zero_point, *op.y.dtype.bounds)
        assert np.abs(op.reference(CMSIS, a, b) - wanted).max() < 1.6
        for factors in ((a, op.a), (b, op.b)):
            assert factors[0].dtype == factors[1].dtype.numpy


@pytest.mark.parametrize("zeros", [(0, 0), (-(2**15), 2**15 - 1), (-16384, 100)])
def test_factors_of_products_fit_32_bits(zeros: tuple[int, int]) -> None:
    op = WideMul(
        a=wide("a", (4,), 2.0**-15, zeros[0]), b=wide("b", (4,), 0.001, zeros[1]), y=wide("y", (4,), 0.002)
    )
    op.check_scales(CMSIS)
    ends = np.array([-(2**15), -(2**15), 2**15 - 1, 2**15 - 1], np.int64)
    first = (ends - zeros[0]) * op.multiplier
    second = (np.roll(ends, 1) - zeros[1]) << op.left
    assert max(np.abs(first).max(), np.abs(second).max()) < 2**31
    assert op.multiplier > 2**12


def test_refusals_of_products() -> None:
    narrow, held = value("n", (2,), 0.1), wide("w", (2,), 0.1)
    with pytest.raises(PillionError, match="not narrower"):
        WideMul(a=narrow, b=held, y=wide("y", (2,), 0.1)).check()
    with pytest.raises(PillionError, match="one of them is int16"):
        WideMul(a=narrow, b=narrow, y=value("y", (2,), 0.1)).check()
    with pytest.raises(ValueError, match="of the result's"):
        WideMul(a=held, b=held, y=wide("y", (2,), 1e-3)).check_scales(CMSIS)


@pytest.mark.parametrize("function", sorted(NAMED, key=str))
def test_functions_are_near_real_ones(function: Function) -> None:
    x, y = wide("x", (2**16,), 2.0**-12, 700), wide("y", (2**16,), 2.0**-11, -5)
    op = WideLut(x=x, y=y, function=function)
    levels = np.arange(-(2**15), 2**15).astype(np.int16)
    narrow = Lut(x=value("a", (1,), 0.1), y=value("b", (1,), 0.1), function=function)
    wanted = REAL[function](x.scale * (levels.astype(float) - 700), narrow) / y.scale - 5
    found = op.reference(CMSIS, levels)
    assert np.abs(found - np.clip(wanted, -(2**15), 2**15 - 1)).max() < 2
    assert np.all(np.diff(found.astype(int)) >= 0) or function is Function.SILU


def test_tables_are_drawn_by_lines_and_meet_their_entries() -> None:
    held = np.random.default_rng(0).integers(-(2**15), 2**15, ENTRIES).astype(np.int16)
    op = WideLut(x=wide("x", (ENTRIES - 1,), 0.1), y=wide("y", (256,), 0.1), table=constant_value("t", held))
    at = np.arange(-(2**15), 2**15, 256).astype(np.int16)
    assert np.array_equal(op.reference(CMSIS, at), held[:-1])
    between = op.reference(CMSIS, at + 128).astype(int)
    assert np.array_equal(between, (held[:-1].astype(int) + held[1:] + 1) >> 1)


@pytest.mark.parametrize(
    ("x", "function", "entries", "says"),
    [
        (DType.INT8, Function.TANH, 0, "operand and result are int16"),
        (DType.INT16, Function.EXP, 0, "functions are"),
        (DType.INT16, Function.TANH, ENTRIES, "`table` goes with"),
        (DType.INT16, Function.TABLE, 256, "257 int16 entries"),
    ],
)
def test_refusals_of_functions(x: DType, function: Function, entries: int, says: str) -> None:
    table = constant_value("t", np.zeros(entries, np.int16)) if entries else None
    given = Value("x", TensorType((2,), x, PerTensor(0.1)))
    with pytest.raises(PillionError, match=says):
        WideLut(x=given, y=wide("y", (2,), 0.1), function=function, table=table).check()


def loop(function: Function) -> Graph:
    """c + sigmoid(x · c), five times."""
    held = np.linspace(-(2**14), 2**14, ENTRIES).astype(np.int16)
    c, x = wide("c", (1, 7), 0.001, 128), value("x", (1, 7), 0.05)
    product = make_op(WideMul, wide("p", (), 0.002), a=c, b=x)
    table = constant_value("t", held) if function is Function.TABLE else None
    gate = make_op(
        WideLut, wide("g", (), 2.0**-15, -(2**14)), x=product.results[0], function=function, table=table
    )
    total = make_op(WideAdd, wide("n", (), 0.001, 128), a=c, b=gate.results[0])
    body = Graph("step", (x, c), (product, gate, total), total.results)
    xs = value("xs", (5, 1, 7), 0.05)
    first = constant_value("first", np.full((1, 7), 128, np.int16), c.quant)
    y = Value("last", c.type)
    scan = Scan(sequences=(xs,), initial=(first,), invariants=(), ys=(y,), body=body, count=5)
    out = WideAdd(
        a=y, b=constant_value("zero", np.zeros(7, np.int8), PerTensor(1.0)), y=value("y", (1, 7), 0.128, 1)
    )
    return verify_graph(Graph("g", (xs,), (scan, out), (out.y,)), "made")


@pytest.mark.parametrize("function", [Function.SIGMOID, Function.TABLE])
def test_loops_have_8_bits_elsewhere(function: Function) -> None:
    """The same ops as they are in int8, and answers that are near."""
    graph = loop(function)
    narrow = verify_graph(demote_sums(graph), "narrow")
    (scan,) = (op for op in narrow.ops if isinstance(op, Scan))
    assert [type(op) for op in scan.body.ops][:2] == [Mul, Lut]
    values = (*narrow.values.values(), *scan.body.values.values())
    assert {v.dtype for v in values} == {DType.INT8}
    assert demote_sums(narrow) is narrow
    x = random_like(graph.inputs[0])
    (found,), (wanted,) = narrow.reference(x), graph.reference(x)
    assert np.abs(found.astype(int) - wanted).max() <= 4
