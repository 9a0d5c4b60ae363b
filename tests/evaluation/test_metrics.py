# SPDX-License-Identifier: Apache-2.0
"""Metrics against their definitions, and against scikit-learn's."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, roc_auc_score

from pillion.errors import PillionError
from pillion.evaluation.metrics import Batch, Confusion, default_metrics, metric_of

RNG = np.random.default_rng(0)


def batch(outputs: Any, labels: Any, inputs: Any = None) -> Batch:
    made = np.asarray(outputs, np.float32)
    given = np.zeros((len(made), 7), np.float32) if inputs is None else np.asarray(inputs, np.float32)
    places = tuple(f"sample {n}" for n in range(len(made)))
    return Batch((made,), None if labels is None else np.asarray(labels), (given,), places)


def value(name: Any, *batches: Batch) -> dict[str, float]:
    metric = metric_of(name)
    for one in batches:
        metric.add(one)
        metric = pickle.loads(pickle.dumps(metric)) if isinstance(name, str) else metric
    return metric.values()


def test_top_k_counts_the_first_of_equal_numbers() -> None:
    scores = [[3, 1, 2], [5, 5, 0], [5, 5, 0], [0, 1, 2]]
    one = batch(scores, [0, 0, 1, 1])
    assert value("top1", one) == {"top1": 0.5}
    assert value("top2", one) == {"top2": 1.0}
    assert value("top1", batch(scores[:1], [0]), batch(scores[1:], [0, 1, 1])) == {"top1": 0.5}


def test_top_1_is_argmax() -> None:
    scores, labels = RNG.integers(-3, 3, (200, 7)), RNG.integers(0, 7, 200)
    assert value("top1", batch(scores, labels))["top1"] == np.mean(scores.argmax(1) == labels)


@pytest.mark.parametrize("outputs", [1, 2, 5])
def test_auc_equals_scikit_learn(outputs: int) -> None:
    labels = RNG.integers(0, max(outputs, 2), 300)
    scores = np.round(RNG.standard_normal((300, outputs)) + 0.7 * (labels[:, None] == np.arange(outputs)), 1)
    scores = scores.astype(np.float32).astype(np.float64)  # equal ones stay equal
    found = value("auc", batch(scores[:100], labels[:100]), batch(scores[100:], labels[100:]))["auc"]
    if outputs <= 2:
        wanted = roc_auc_score(labels, scores[:, -1] - (scores[:, 0] if outputs == 2 else 0))
    else:
        wanted = np.mean([roc_auc_score(labels == c, scores[:, c]) for c in range(outputs)])
    assert found == pytest.approx(wanted, abs=1e-12)


def test_the_area_of_an_autoencoder_goes_by_its_error() -> None:
    inputs = RNG.standard_normal((40, 3, 3))
    labels = np.arange(40) % 2
    outputs = inputs + labels[:, None, None] * RNG.standard_normal((40, 3, 3))
    error = ((outputs.astype(np.float32) - inputs.astype(np.float32)) ** 2).mean((1, 2))
    assert value("auc", batch(outputs, labels, inputs))["auc"] == pytest.approx(roc_auc_score(labels, error))


def test_mean_errors_are_from_labels_or_from_inputs() -> None:
    found, wanted = RNG.standard_normal((9, 4)), RNG.standard_normal((9, 4))
    difference = found.astype(np.float32) - wanted
    assert value("mse", batch(found, wanted))["mse"] == pytest.approx((difference**2).mean())
    assert value("mae", batch(found[:3], wanted[:3]), batch(found[3:], wanted[3:]))["mae"] == pytest.approx(
        np.abs(difference).mean()
    )
    assert value("mse", batch(found, None, wanted))["mse"] == pytest.approx((difference**2).mean(), rel=1e-6)


def test_the_confusion_matrix_equals_scikit_learn() -> None:
    scores, labels = RNG.standard_normal((100, 4)), RNG.integers(0, 4, 100)
    matrix = Confusion()
    matrix.add(batch(scores[:30], labels[:30]))
    matrix.add(batch(scores[30:], labels[30:]))
    assert matrix.counts is not None
    np.testing.assert_array_equal(matrix.counts, confusion_matrix(labels, scores.argmax(1)))


def test_a_metric_of_the_users_sees_all_at_once(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "def spread(outputs, labels):\n    return {'n': len(labels), 'far': outputs.max() - outputs.min()}\n"
    )
    batches = batch([[1, 2], [3, 4]], [0, 1]), batch([[9, 0]], [1])
    assert value(f"{file}:spread", *batches) == {"n": 3.0, "far": 9.0}
    assert value(lambda outputs, labels: outputs[:, 0].sum(), *batches) == {"<lambda>": 13.0}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("def m(outputs, labels): return 'good'", "gives no number"),
        ("def m(outputs, labels): return float('nan')", "gives no number"),
        ("def m(outputs, labels): return labels.nothing", "(?s)AttributeError.*own.py:1"),
        ("def n(outputs, labels): return 1", "has no function m"),
    ],
)
def test_errors_of_user_metrics_are_explained(tmp_path: Path, body: str, words: str) -> None:
    (tmp_path / "own.py").write_text(body)
    with pytest.raises(PillionError, match=words):
        value(f"{tmp_path}/own.py:m", batch([[1, 2]], [0]))


@pytest.mark.parametrize(
    ("name", "outputs", "labels", "words"),
    [
        ("top1", [[1, 2, 3]], [3], "(?s)sample 0 is no class.*0 to 2"),
        ("top1", [[1, 2, 3]], [-1], "is no class"),
        ("top1", [[1, 2, 3]], [0.5], "is no class"),
        ("top1", [[1, 2, 3]], [[0, 1, 0]], "one-hot"),
        ("top1", [[1]], [0], "2 classes at least"),
        ("top5", [[1, 2, 3]], [0], "5 classes at least"),
        ("top1", [[1, 2, 3]], None, "needs labels"),
        ("auc", [[1], [2]], [1, 1], "(?s)no meaning.*all 2 samples have label 1"),
        ("auc", [[1], [2]], [1, 2], "labels 0 and 1"),
        ("auc", [[1]], None, "needs labels"),
        ("mse", [[1, 2]], [1], "the 2 numbers"),
        ("accuracy", [[1, 2]], [1], "no metric accuracy"),
        ("top0", [[1, 2]], [1], "no metric top0"),
    ],
)
def test_metrics_without_meaning_are_refused(name: str, outputs: Any, labels: Any, words: str) -> None:
    with pytest.raises(PillionError, match=words):
        value(name, batch(outputs, labels, np.zeros((len(outputs), 7))))


def test_the_usual_metric_follows_from_the_label() -> None:
    assert default_metrics([10], np.asarray(3), [784]) == ("top1",)
    assert default_metrics([1000], np.asarray(3), [784]) == ("top1", "top5")
    assert default_metrics([784], None, [784]) == ("mse",)
    assert default_metrics([1], np.asarray(1), [4]) == ("mse",)
    assert default_metrics([4], np.zeros(4), [9]) == ("mse",)
    with pytest.raises(PillionError, match="needs labels"):
        default_metrics([10], None, [784])
    assert default_metrics([10], None, [784], is_compared=True) == ()
    with pytest.raises(PillionError, match="has to be named"):
        default_metrics([784], np.asarray(1), [784])
