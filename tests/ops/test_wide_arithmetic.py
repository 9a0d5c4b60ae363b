# SPDX-License-Identifier: Apache-2.0
"""Sums, products and functions in 16 bits against real numbers; the same in 8 bits for formats without them."""

from __future__ import annotations

import numpy as np
import pytest

from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic, Multiplier
from pillion.ir.types import DType, PerTensor, TensorType, Value, constant_value
from pillion.ir.verify import verify_graph
from pillion.ops import Add, Function, Lut, Mul, Normalize, Scan, Sub
from pillion.ops.elementwise import AddOrSub, ScaledBinary
from pillion.ops.example_values import make_op, random_like, value
from pillion.ops.lut import REAL, STEEP_NEAR_ZERO
from pillion.ops.lut_interpolation import ENTRIES
from pillion.passes import demote_sums

CMSIS, TFLITE = Arithmetic.CMSIS_NN, Arithmetic.TFLITE
WIDE = {"low": -(2**15), "high": 2**15 - 1}
PAIRS = [op for cls in (Add, Sub, Mul) for op in cls.examples() if op.has_own_int16_form(CMSIS)]
SMOOTH = [Function.SIGMOID, Function.TANH, Function.SILU, Function.SOFTPLUS]


def wide(name: str, shape: tuple[int, ...], scale: float, zero_point: int = 0) -> Value:
    return Value(name, TensorType(shape, DType.INT16, PerTensor(scale, zero_point)))


@pytest.mark.parametrize("op", PAIRS, ids=lambda op: f"{op.kind} {op.a!r} {op.b!r} {op.y.dtype.value}")
def test_examples_are_the_nearest_integers(op: ScaledBinary) -> None:
    """Products are off by what the multiplier is rounded by, too: of 65,536 steps one at most."""
    for seed in range(5):
        a, b = random_like(op.a, seed), random_like(op.b, seed + 50)
        first, second = (v.scale * (x.astype(float) - v.zero_point) for v, x in ((op.a, a), (op.b, b)))
        real = first + op.sign * second if isinstance(op, AddOrSub) else first * second
        wanted = np.clip(real / op.y.scale + op.y.zero_point, op.low, op.high)
        error = np.abs(op.reference(CMSIS, a, b) - wanted).max()
        assert error < (0.5005 if isinstance(op, AddOrSub) else 1.6)


def test_sums_saturate_at_both_ends() -> None:
    a, b = wide("a", (1, 2), 1.0, -(2**15)), value("b", (1, 2))
    op = make_op(Add, wide("y", (), 1e-4), a=a, b=b, **WIDE)
    ends = np.array([[2**15 - 1, -(2**15)]], np.int16)
    assert op.reference(CMSIS, ends, np.array([[0, -128]], np.int8)).tolist() == [[32767, -32768]]


@pytest.mark.parametrize("cls", [Add, Sub, Mul])
def test_widths_decide_the_arithmetic(cls: type[ScaledBinary]) -> None:
    """LiteRT's is that of three 16-bit tensors with zero point 0, and only where it is wanted."""
    a, b, y = wide("a", (9,), 0.003), wide("b", (9,), 0.0071), wide("y", (9,), 0.0087)
    narrow, off_zero = value("n", (9,), 0.02), wide("y", (9,), 0.0087, 5)
    assert cls(a=a, b=b, y=y).has_own_int16_form(CMSIS)
    assert not cls(a=a, b=b, y=y).has_own_int16_form(TFLITE)
    for fields in (
        {"a": narrow, "b": b, "y": y},
        {"a": a, "b": b, "y": off_zero},
        {"a": a, "b": b, "y": narrow},
    ):
        assert cls(**fields).has_own_int16_form(TFLITE)
    assert not cls(a=narrow, b=narrow, y=narrow).has_own_int16_form(CMSIS)


@pytest.mark.parametrize("cls", [Add, Sub, Mul])
def test_order_of_widths_does_not_matter(cls: type[ScaledBinary]) -> None:
    a, b, y = wide("a", (3, 7), 0.0003, 77), value("b", (3, 7), 0.02, -9), wide("y", (3, 7), 0.0004, -5)
    x, z = random_like(a), random_like(b)
    found = cls(a=b, b=a, y=y, **WIDE).reference(CMSIS, z, x).astype(int)
    sign = -1 if cls is Sub else 1
    wanted = sign * (cls(a=a, b=b, y=y, **WIDE).reference(CMSIS, x, z).astype(int) + 5) - 5
    assert np.abs(found - wanted).max() <= (cls is Sub)


def test_other_types_are_refused() -> None:
    a, b, y = (
        Value(n, TensorType((2,), t, PerTensor(0.1)))
        for n, t in zip("aby", (DType.INT16, DType.INT32, DType.INT16), strict=True)
    )
    with pytest.raises(PillionError, match="both operands have one type"):
        Add(a=a, b=b, y=y).check()
    with pytest.raises(PillionError, match="multipliers of their scales"):
        Mul(a=a, b=a, y=y, explicit=(Multiplier(2**30, 0),)).check()


@pytest.mark.parametrize("cls", [Add, Mul])
def test_scales_without_a_multiplier_are_said(cls: type[ScaledBinary]) -> None:
    op = make_op(cls, wide("y", (), 1e-12), a=wide("a", (2,), 1.0), b=wide("b", (2,), 1.0))
    with pytest.raises(ValueError, match="of the result's"):
        op.check_scales(CMSIS)


@pytest.mark.parametrize("zeros", [(0, 0), (-(2**15), 2**15 - 1), (-16384, 100)])
def test_factors_of_products_fit_32_bits(zeros: tuple[int, int]) -> None:
    op = Mul(
        a=wide("a", (4,), 2.0**-15, zeros[0]), b=wide("b", (4,), 0.001, zeros[1]), y=wide("y", (4,), 0.002)
    )
    op.check_scales(CMSIS)
    ends = np.array([-(2**15), -(2**15), 2**15 - 1, 2**15 - 1], np.int64)
    first = (ends - zeros[0]) * op.int16_form.multiplier
    second = (np.roll(ends, 1) - zeros[1]) << op.int16_form.left
    assert max(np.abs(first).max(), np.abs(second).max()) < 2**31
    assert op.int16_form.multiplier > 2**12


@pytest.mark.parametrize("function", SMOOTH)
def test_functions_are_near_real_ones(function: Function) -> None:
    x, y = wide("x", (2**16,), 2.0**-12, 700), wide("y", (2**16,), 2.0**-11, -5)
    op = Lut(x=x, y=y, table=None, function=function)
    levels = np.arange(-(2**15), 2**15).astype(np.int16)
    wanted = REAL[function](x.scale * (levels.astype(float) - 700), op) / y.scale - 5
    found = op.reference(CMSIS, levels)
    assert np.abs(found - np.clip(wanted, -(2**15), 2**15 - 1)).max() < 2
    assert np.all(np.diff(found.astype(int)) >= 0) or function is Function.SILU


def test_tables_are_drawn_by_lines_and_meet_their_entries() -> None:
    held = np.random.default_rng(0).integers(-(2**15), 2**15, ENTRIES).astype(np.int16)
    op = Lut(x=wide("x", (ENTRIES - 1,), 0.1), y=wide("y", (256,), 0.1), table=constant_value("t", held))
    at = np.arange(-(2**15), 2**15, 256).astype(np.int16)
    assert np.array_equal(op.reference(CMSIS, at), held[:-1])
    between = op.reference(CMSIS, at + 128).astype(int)
    assert np.array_equal(between, (held[:-1].astype(int) + held[1:] + 1) >> 1)


@pytest.mark.parametrize("function", STEEP_NEAR_ZERO)
def test_steep_functions_keep_16_bits_in_all_octaves(function: Function) -> None:
    """Off by 2^-12 of the result, or by a step, and not where the result saturates."""
    every = np.arange(1, 2**15).astype(np.int16)
    op = Lut(x=wide("x", every.shape, 2.0**-10), y=wide("y", every.shape, 2.0**-10), function=function)
    exact = REAL[function](every * 2.0**-10, op) * 2.0**10
    inside = np.abs(exact) < 2**15 - 1
    found = op.reference(CMSIS, every)
    assert (np.abs(found - exact) <= np.maximum(np.abs(exact) * 2.0**-12, 1) + 0.5)[inside].all()


@pytest.mark.parametrize(("dtype", "entries"), [(DType.INT16, 256), (DType.INT8, ENTRIES)])
def test_tables_have_the_length_of_their_width(dtype: DType, entries: int) -> None:
    x, y = (Value(name, TensorType((2,), dtype, PerTensor(0.1))) for name in "xy")
    table = constant_value("t", np.zeros(entries, dtype.numpy))
    with pytest.raises(
        PillionError, match="257 or 1282 int16 entries" if dtype is DType.INT16 else "256 int8 entries"
    ):
        Lut(x=x, y=y, table=table).check()


@pytest.mark.parametrize("zero_point", [-(2**15), 0, 700, 2**15 - 1])
def test_sums_of_8_bits_mean_the_same(zero_point: int) -> None:
    """A chain of two sums, the second of them clamped, each of which a norm reads: after the pass no tensor has 16 bits, and
    all are near what they were."""
    x, z = value("x", (3, 8), 0.05), value("z", (3, 8), 0.02)
    first = Add(a=x, b=z, y=wide("s", (3, 8), 0.0002, zero_point // 2), **WIDE)
    low = max(zero_point // 2 - 8000, -(2**15))
    second = Add(a=first.y, b=x, y=wide("t", (3, 8), 0.0004, zero_point // 2), low=low, high=2**15 - 1)
    norms = [Normalize(x=s.y, y=value(f"n{i}", (3, 8), 0.03), axis=1) for i, s in enumerate((first, second))]
    graph = Graph("g", (x, z), (first, second, *norms), tuple(n.y for n in norms))
    narrow = verify_graph(demote_sums(verify_graph(graph, "before")), "after")
    assert [type(op) for op in narrow.ops] == [Add, Add, Normalize, Normalize]
    assert {v.dtype for v in narrow.values.values()} == {DType.INT8}
    assert demote_sums(narrow) is narrow
    assert narrow.ops[1].low == max(round(low / 256), -128)
    inputs = [(random_like(v) // 4).astype(np.int8) for v in (x, z)]
    for a, b in zip(graph.reference(*inputs), narrow.reference(*inputs), strict=True):
        assert np.abs(a.astype(int) - b).max() <= 3


def loop(function: Function) -> Graph:
    """c + sigmoid(x · c), five times."""
    held = np.linspace(-(2**14), 2**14, ENTRIES).astype(np.int16)
    c, x = wide("c", (1, 7), 0.001, 128), value("x", (1, 7), 0.05)
    product = make_op(Mul, wide("p", (), 0.002), a=c, b=x, **WIDE)
    table = constant_value("t", held) if function is Function.TABLE else None
    gate = make_op(
        Lut, wide("g", (), 2.0**-15, -(2**14)), x=product.results[0], function=function, table=table
    )
    total = make_op(Add, wide("n", (), 0.001, 128), a=c, b=gate.results[0], **WIDE)
    body = Graph("step", (x, c), (product, gate, total), total.results)
    xs = value("xs", (5, 1, 7), 0.05)
    first = constant_value("first", np.full((1, 7), 128, np.int16), c.quant)
    y = Value("last", c.type)
    scan = Scan(sequences=(xs,), initial=(first,), invariants=(), ys=(y,), body=body, count=5)
    out = Add(
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
