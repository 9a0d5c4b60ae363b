# SPDX-License-Identifier: Apache-2.0
"""Rows of a table that are added, against real numbers, and the same with one scale for those who have no others."""

from __future__ import annotations

import numpy as np
import pytest

from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType, PerChannel, PerTensor, TensorType, Value, constant_value
from pillion.ir.verify import verify_graph
from pillion.ops import EmbeddingBag
from pillion.ops.example_values import make_op
from pillion.passes import legalize_embedding_bags


def bag(table: np.ndarray, scales: list[float], words: int, y: Value, *, mean: bool = False) -> EmbeddingBag:
    held = constant_value("table", table.astype(np.int8), PerChannel(tuple(scales), 0))
    indices = Value("indices", TensorType((2, words), DType.INT32))
    made = make_op(EmbeddingBag, y, table=held, indices=indices, mean=mean)
    assert isinstance(made, EmbeddingBag)
    return made


def y_of(scale: float, zero_point: int = 0) -> Value:
    return Value("y", TensorType((), DType.INT8, PerTensor(scale, zero_point)))


@pytest.mark.parametrize(
    "op", list(EmbeddingBag.examples()), ids=lambda op: f"{op.table.shape} {op.indices.shape}"
)
def test_examples_are_the_nearest_integers(op: EmbeddingBag) -> None:
    """Numbers from outside of the table are those of its ends."""
    rows = op.table.shape[0]
    numbers = np.random.default_rng(3).integers(-3, rows + 3, op.indices.shape).astype(np.int32)
    real = op.table.constant.astype(float) * op.table.channel_scales[:, None]
    found = real[np.clip(numbers, 0, rows - 1)]
    reduced = found if op.is_lookup else found.mean(axis=-2) if op.mean else found.sum(axis=-2)
    wanted = np.clip(reduced / op.y.scale + op.y.zero_point, -128, 127)
    got = op.reference(Arithmetic.CMSIS_NN, op.table.constant, numbers)
    assert np.abs(got - wanted).max() < 0.5001


def test_many_words_of_the_largest_row_are_exact() -> None:
    """More than 32 bits hold."""
    words = 2**16 + 3
    op = bag(np.full((2, 3), 127), [0.5, 1e-6], words, y_of(0.5), mean=True)
    numbers = np.zeros((2, words), np.int32)
    assert (op.reference(Arithmetic.CMSIS_NN, op.table.constant, numbers) == 127).all()


def test_sums_saturate_at_both_ends() -> None:
    op = bag(np.array([[127], [-127]]), [1.0, 1.0], 3, y_of(0.01))
    numbers = np.array([[0, 0, 0], [1, 1, 1]], np.int32)
    assert op.reference(Arithmetic.CMSIS_NN, op.table.constant, numbers).ravel().tolist() == [127, -128]


def test_rows_far_beyond_the_result_are_said() -> None:
    with pytest.raises(ValueError, match="of the result's"):
        bag(np.ones((1, 1)), [1.0], 1, y_of(1e-10)).check_scales(Arithmetic.CMSIS_NN)


def test_a_table_of_one_scale_is_another_op() -> None:
    table = constant_value("table", np.ones((2, 3), np.int8), PerTensor(0.1))
    with pytest.raises(PillionError, match="a scale for each row"):
        EmbeddingBag(table=table, indices=Value("i", TensorType((2, 2), DType.INT32)), y=y_of(0.1)).check()


@pytest.mark.parametrize("mean", [False, True])
def test_with_one_scale_it_means_nearly_the_same(mean: bool) -> None:
    rng = np.random.default_rng(0)
    op = bag(rng.integers(-127, 128, (9, 17)), [*rng.uniform(0.005, 0.01, 9)], 4, y_of(0.02, 7), mean=mean)
    graph = verify_graph(Graph("g", (op.indices,), (op,), (op.y,)))
    plain = verify_graph(legalize_embedding_bags(graph))
    assert [one.kind for one in plain.ops] == ["gather", "mean" if mean else "reduce_sum"]
    assert legalize_embedding_bags(plain) is plain
    numbers = rng.integers(0, 9, op.indices.shape).astype(np.int32)
    (exact,), (near,) = graph.reference(numbers), plain.reference(numbers)
    assert np.abs(exact.astype(int) - near).max() <= 2
