# SPDX-License-Identifier: Apache-2.0
"""Comparisons, choices and what is looked up by numbers: LiteRT answers what the reference answers, and the file is read as the same."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from pillion.emitters.tflite import emit
from pillion.errors import PillionError
from pillion.importers.tflite import read
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value, constant_value
from pillion.ops import (
    ArgMax,
    ArgMin,
    Cast,
    Compare,
    Gather,
    IntegerArithmetic,
    Maximum,
    Minimum,
    ReduceMax,
    ReduceMin,
    Relation,
    TopPlaces,
    TopValues,
    Where,
)
from pillion.ops.example_values import make_op, random_like, value

litert = pytest.importorskip("ai_edge_litert.interpreter")

KINDS: tuple[type[Op], ...] = (
    Compare,
    IntegerArithmetic,
    Where,
    ArgMax,
    ArgMin,
    TopValues,
    TopPlaces,
    Gather,
    Cast,
)


def answers(file: bytes, inputs: list[Array]) -> list[Array]:
    interpreter = litert.Interpreter(
        model_content=file,
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
        num_threads=1,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def samples(op: Op, seed: int) -> list[Array]:
    found = []
    for v in op.activations:
        array = random_like(v, seed)
        if isinstance(op, Gather) and v is op.indices:
            array = array % np.int32(op.x.shape[op.axis])
        elif v.dtype is DType.INT32:
            array = array % np.int32(5)
        found.append(array)
    return found


def require_same(op: Op, seeds: int = 3) -> None:
    """LiteRT's bytes are the reference's, and those of the graph that is read from the file."""
    graph = Graph("one", op.activations, (op,), op.results, Arithmetic.TFLITE)
    file = emit(graph)
    again = read(file)
    for seed in range(seeds):
        inputs = samples(op, seed)
        wanted = graph.reference(*inputs)
        got, read_back = answers(file, inputs), again.reference(*inputs)
        for ours, theirs, ours_again in zip(wanted, got, read_back, strict=True):
            assert (
                (theirs.dtype, theirs.shape)
                == (ours.dtype, ours.shape)
                == (ours_again.dtype, ours_again.shape)
            )
            assert theirs.tobytes() == ours.tobytes() == ours_again.tobytes(), op


def has_a_form(op: Op) -> bool:
    try:
        emit(Graph("one", op.activations, (op,), op.results, Arithmetic.TFLITE))
    except PillionError:
        return False
    return True


@pytest.mark.parametrize("cls", KINDS, ids=lambda cls: cls.kind)
def test_examples(cls: type[Op]) -> None:
    count = 0
    for op in cls.examples():
        if has_a_form(op):
            require_same(op)
            count += 1
    assert count >= 3


def test_comparisons_of_random_scales() -> None:
    """Also where LiteRT takes different numbers for equal, because it rounds them."""
    rng = np.random.default_rng(7)
    for number in range(60):
        scales = np.float32(10.0 ** rng.uniform(-5, -0.01, 2))
        a, b = (
            value(name, shape, float(scale), int(zero_point))
            for name, shape, scale, zero_point in zip(
                "ab", ((3, 41), (41,)), scales, rng.choice([-128, 127, 0, 9, -77], 2), strict=True
            )
        )
        y = Value("y", TensorType((), DType.BOOL))
        require_same(make_op(Compare, y, a=a, b=b, relation=list(Relation)[number % 6]), 1)


def booleans(name: str, *shape: int) -> Value:
    return Value(name, TensorType(shape, DType.BOOL))


@pytest.mark.parametrize("cls", [Minimum, Maximum])
def test_logic(cls: type[Op]) -> None:
    require_same(make_op(cls, booleans("y"), a=booleans("a", 3, 5), b=booleans("b", 5)))


@pytest.mark.parametrize("cls", [ReduceMax, ReduceMin])
@pytest.mark.parametrize("keepdims", [True, False])
def test_any_and_all(cls: type[Op], keepdims: bool) -> None:
    require_same(make_op(cls, booleans("y"), x=booleans("x", 3, 2, 5), axes=(0, 2), keepdims=keepdims), 9)


def test_constants_of_all_types() -> None:
    flags = constant_value("flags", np.array([True, False, True]))
    a, b = value("a", (2, 3), 0.1, 4), value("b", (2, 3), 0.1, 4)
    require_same(make_op(Where, value("y", (), 0.1, 4), condition=flags, a=a, b=b))
    words = constant_value("words", np.array([3, 1, 2], np.int32))
    x = Value("x", TensorType((2, 3), DType.INT32))
    require_same(make_op(Compare, booleans("y"), a=x, b=words, relation=Relation.GREATER_EQUAL))


REFUSED: list[tuple[type[Op], dict[str, Any], str]] = [
    (Compare, {"a": value("a", (3,), 1.5, 0), "b": value("b", (3,), 0.5, 0)}, "scales are below 1"),
    (Compare, {"a": booleans("a", 3), "b": booleans("b", 3)}, "booleans for equality"),
    (TopPlaces, {"x": value("x", (2, 9)), "k": 3, "largest": False}, "the largest"),
]


@pytest.mark.parametrize(("cls", "fields", "rule"), REFUSED, ids=[rule for _, _, rule in REFUSED])
def test_ops_that_litert_lacks_are_refused(cls: type[Op], fields: dict[str, Any], rule: str) -> None:
    dtype = DType.INT32 if cls is TopPlaces else DType.BOOL
    op = make_op(cls, Value("y", TensorType((), dtype)), **fields)
    with pytest.raises(PillionError, match=rule):
        emit(Graph("one", op.activations, (op,), op.results, Arithmetic.TFLITE))


def test_equal_scales_are_compared_as_integers() -> None:
    """The exact order of real numbers, in the arithmetic of the core: with equal scales it is that of the integers."""
    every = np.arange(-128, 128, dtype=np.int8)
    a, b = value("a", (256, 1), 0.037, -5), value("b", (256,), 0.037, -5)
    op = make_op(Compare, booleans("y"), a=a, b=b, relation=Relation.LESS_EQUAL)
    got = op.reference(Arithmetic.CMSIS_NN, every[:, None], every)
    assert got.tolist() == (every[:, None] <= every).tolist()


@pytest.mark.parametrize("relation", Relation)
def test_different_scales_are_compared_exactly(relation: Relation) -> None:
    """Against fractions, for scales far apart and for ties."""
    from fractions import Fraction
    from operator import eq, ge, gt, le, lt, ne

    compare = dict(zip(Relation, (lt, le, eq, ne, ge, gt), strict=True))[relation]
    every = np.arange(-128, 128, dtype=np.int8)
    for first, second in ((0.1, 0.2), (0.3, 0.1), (1e-30, 1e30), (0.05, 0.05 * 3), (1.0, 2.0**-7)):
        a, b = value("a", (256, 1), first, 3), value("b", (256,), second, -128)
        op = make_op(Compare, booleans("y"), a=a, b=b, relation=relation)
        got = op.reference(Arithmetic.CMSIS_NN, every[:, None], every)
        left = [Fraction(a.scale) * (int(q) - 3) for q in every]
        right = [Fraction(b.scale) * (int(q) + 128) for q in every]
        assert got.tolist() == [[compare(x, y) for y in right] for x in left]


def test_unscaled_types_are_named() -> None:
    x = Value("x", TensorType((3,), DType.INT8))
    op = Compare(a=x, b=dataclasses.replace(x, name="b"), y=booleans("y", 3))
    with pytest.raises(PillionError, match="one scale"):
        emit(Graph("one", op.activations, (op,), op.results, Arithmetic.TFLITE))
    assert PerTensor(0.5) != x.type.quant
