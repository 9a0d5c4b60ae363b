# SPDX-License-Identifier: Apache-2.0
"""Norms against real numbers: at most a step away, and nearly always the nearest integer."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value, constant_value
from pillion.ir.verify import verify_graph
from pillion.ops import DepthwiseConv2d, Normalize, parse
from pillion.ops.example_values import make_op, random_like, value
from pillion.ops.normalize import MOST_ELEMENTS, reciprocal_root
from pillion.passes import compose_norms


def real(op: Normalize, x: Array) -> Any:
    """The norm in double precision, in steps of the result."""
    reals = (x.astype(np.float64) - op.x.zero_point) * op.x.scale
    rows = int(np.prod(op.x.shape[: op.axis]))
    parts = reals.reshape(rows, -1, op.groups, op.x.shape[-1] // op.groups)
    centred = parts - parts.mean((1, 3), keepdims=True) if op.centred else parts
    power = (centred**2).mean((1, 3), keepdims=True) + op.eps
    y = np.divide(centred, np.sqrt(power), out=np.zeros_like(centred), where=power > 0).reshape(op.x.shape)
    y = y if op.weights is None else y * op.weights.constant
    y = y if op.bias is None else y + op.bias.constant
    return np.clip(y / op.y.scale + op.y.zero_point, op.low, op.high)


def answer(op: Normalize, x: Array) -> Any:
    return op.reference(Arithmetic.CMSIS_NN, x).astype(np.int64)


def norm(shape: tuple[int, ...], scale: float, zero_point: int, y: Any, **attributes: Any) -> Normalize:
    made = make_op(Normalize, y, x=value("x", shape, scale, zero_point), **attributes)
    made.check()
    assert isinstance(made, Normalize)
    return made


def data(shape: tuple[int, ...], spread: float, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    centre = rng.uniform(-128, 127)
    return np.clip(np.rint(centre + spread * rng.standard_normal(shape)), -128, 127).astype(np.int8)


@pytest.mark.parametrize("op", list(Normalize.examples()), ids=lambda op: str(op.activations[0].shape))
def test_examples_are_the_nearest_integers(op: Normalize) -> None:
    for seed in range(20):
        x = random_like(op.x, seed)
        most = 5 if op.y.dtype is DType.INT16 else 0.501 if op.x.dtype is DType.INT8 else 0.51
        assert np.abs(answer(op, x) - real(op, x)).max() < most


LENGTHS = (2, 3, 8, 31, 64, 192, 769, 4096)
SPREADS = (0.3, 1.0, 4.0, 30.0, 100.0)


def test_results_are_nearest_integers_for_99_percent() -> None:
    """Rows of all lengths and spreads, zero points at the ends, eps from nothing to more than all variance, fine and coarse results."""
    far, all_of_them = 0, 0
    cases = itertools.product(LENGTHS, SPREADS, (True, False), (0.0, 1e-5, 0.03, 10.0))
    for number, (length, spread, centred, eps) in enumerate(cases):
        rng = np.random.default_rng(number)
        held = {
            "weights": constant_value("weights", rng.uniform(-2, 2, length).astype(np.float32)),
            "bias": constant_value("bias", rng.uniform(-1, 1, length).astype(np.float32)),
        }
        y = value("y", (), (0.02, 2.0**-5, 0.05)[number % 3], (-128, 0, 127, 9)[number % 4])
        zero = (-128, 0, 127)[number % 3]
        op = norm((4, length), 2.0 ** rng.uniform(-8, 3), zero, y, centred=centred, eps=eps, **held)
        x = data((4, length), spread, number)
        wanted, got = real(op, x), answer(op, x)
        assert np.abs(got - wanted).max() < 0.6
        far += int((np.abs(got - wanted) > 0.501).sum())
        all_of_them += got.size
    assert far < all_of_them / 1000


def test_rows_of_16_bits_that_differ_in_size_a_thousand_times() -> None:
    """Each of them is as exact as if it were alone."""
    rng = np.random.default_rng(3)
    for length in (2, 17, 64, 192, 1024, 2**15):
        for zero in (-(2**15), 0, 2**15 - 1):
            quant = PerTensor(2.0**-11, zero)
            x = Value("x", TensorType((4, length), DType.INT16, quant))
            op = make_op(Normalize, value("y", (), 2.0**-5, 3), x=x, eps=1e-9)
            assert isinstance(op, Normalize)
            spread = np.array([[10000.0], [1000.0], [100.0], [10.0]])
            levels = np.clip(np.rint(300 + spread * rng.standard_normal((4, length))), -(2**15), 2**15 - 1)
            away = np.abs(answer(op, levels.astype(np.int16)) - real(op, levels))
            assert away.max() < 0.6
            assert (away > 0.51).mean() < 0.01


@pytest.mark.parametrize("length", [2**15 + 1, 2**16 + 3, 2**18])
@pytest.mark.parametrize("centred", [True, False])
def test_long_rows(length: int, centred: bool) -> None:
    op = norm((1, length), 0.05, -128, value("y", (), 0.04, 3), centred=centred)
    lone = np.full((1, length), 5, np.int8)
    lone[0, 7] = 6
    ends = np.where(np.arange(length) % 2, 127, -128).astype(np.int8)[None]
    for x in (data((1, length), 20.0, 1), lone, ends):
        assert np.abs(answer(op, x) - real(op, x)).max() < 0.52


@pytest.mark.parametrize("level", [-128, -1, 0, 127])
@pytest.mark.parametrize("eps", [0.0, 1e-30, 1e-5])
def test_rows_of_equal_numbers_are_the_bias(level: int, eps: float) -> None:
    bias = constant_value("bias", np.array([1.0, -0.5, 0.25], np.float32))
    op = norm((2, 3), 0.05, 0, value("y", (), 2.0**-5, 4), eps=eps, bias=bias)
    x = np.full((2, 3), level, np.int8)
    assert answer(op, x).tolist() == [[36, -12, 12]] * 2
    zeros = norm((2, 3), 0.05, level, value("y", (), 2.0**-5, 4), eps=eps, bias=bias, centred=False)
    assert answer(zeros, x).tolist() == [[36, -12, 12]] * 2


def test_reciprocal_roots() -> None:
    rng = np.random.default_rng(0)
    numbers = np.concatenate([2 ** np.arange(62), 2 ** np.arange(62) - 1, rng.integers(1, 2**62, 1000)])
    numbers = numbers[numbers > 0].astype(np.int64)
    root, halves = reciprocal_root(numbers)
    found = root * 2.0**-29 * 2.0**-15.5 * 2.0**-halves
    assert np.abs(found * np.sqrt(numbers.astype(np.float64)) - 1).max() < 2e-7


X = value("x", (2, 12), 0.05)
TWO, INFINITE = (constant_value("w", np.array(held, np.float32)) for held in ([1, 2], [np.inf]))


@pytest.mark.parametrize(
    ("attributes", "rule"),
    [
        ({"axis": 2}, "axis is one of 2"),
        ({"axis": -1}, "axis is one of 2"),
        ({"groups": 5}, "equal groups"),
        ({"groups": 0}, "equal groups"),
        ({"eps": -1e-5}, "eps is not negative"),
        ({"eps": float("nan")}, "eps is not negative"),
        ({"weights": TWO}, "one for each index of the last axis"),
        ({"bias": INFINITE}, "finite"),
        ({"bias": value("b", (12,))}, "`b` is float32"),
        (
            {"x": Value("x", TensorType((2**15 + 1,), DType.INT16, PerTensor(0.1))), "axis": 0},
            "at most 32768 elements",
        ),
        ({"x": Value("x", TensorType((2, 12), DType.INT32, PerTensor(0.1)))}, "its operand is int8 or int16"),
        ({"x": value("x", (MOST_ELEMENTS[DType.INT8] + 1,), 0.05), "axis": 0}, "at most 8388608 elements"),
    ],
)
def test_invalid_attributes_are_refused(attributes: dict[str, Any], rule: str) -> None:
    with pytest.raises(PillionError) as found:
        Normalize(y=value("y", (2, 12)), **{"x": X, **attributes}).check()
    assert rule in str(found.value)


@pytest.mark.parametrize(("x_scale", "y_scale"), [(2.0**-60, 0.05), (0.05, 2.0**-40)])
def test_scales_without_fixed_point(x_scale: float, y_scale: float) -> None:
    op = norm((2, 12), x_scale, 0, value("y", (), y_scale, 0))
    with pytest.raises(ValueError, match=r"eps is|result may be"):
        op.check_scales(Arithmetic.CMSIS_NN)


def test_text() -> None:
    op = next(iter(Normalize.examples()))
    graph = verify_graph(Graph("g", op.activations, (op,), op.results))
    from pillion.ir.text import to_text

    again = parse(to_text(graph))
    x = random_like(op.activations[0])
    assert np.array_equal(again.reference(x)[0], graph.reference(x)[0])


# --- as other ops, for formats that have no norm


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("centred", [True, False])
def test_composed_it_is_near(groups: int, centred: bool) -> None:
    """About 30 dB from the op itself, for rows whose spread is that of the tensor."""
    rng = np.random.default_rng(1)
    held = {
        "weights": constant_value("weights", rng.uniform(0.5, 1.5, 32).astype(np.float32)),
        "bias": constant_value("bias", rng.uniform(-1, 1, 32).astype(np.float32)),
    }
    op = norm((2, 5, 3, 32), 0.03, 5, value("y", (), 5 / 128, 0), groups=groups, centred=centred, **held)
    graph = verify_graph(Graph("g", op.activations, (op,), op.results))
    composed = verify_graph(compose_norms(graph))
    x = data(op.x.shape, 35, 2) // 2
    exact, near = (g.reference(x)[0].astype(np.float64) for g in (graph, composed))
    loss = 10 * np.log10((exact**2).mean() / ((exact - near) ** 2).mean())
    assert loss > 28
    assert not any(isinstance(made, Normalize) for made in composed.ops)
    assert sum(isinstance(made, DepthwiseConv2d) for made in composed.ops) == 1


@pytest.mark.parametrize(
    "op",
    [op for op in Normalize.examples() if op.activations[0].dtype is DType.INT8],
    ids=lambda op: str(op.activations[0].shape),
)
def test_every_example_is_composed(op: Normalize) -> None:
    """Valid, of the same type, and the bias alone where a row has one number only."""
    composed = verify_graph(compose_norms(verify_graph(Graph("g", op.activations, (op,), op.results))))
    assert composed.outputs == op.results
    (made,) = composed.reference(np.full(op.x.shape, 3, np.int8))
    assert made.shape == op.y.shape
