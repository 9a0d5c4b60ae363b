# SPDX-License-Identifier: Apache-2.0
"""Metrics of outputs against labels. Each accumulates batches and can be sent to other processes."""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from pillion.errors import PillionError
from pillion.host_io.npy_files import Array
from pillion.host_io.user_code import function_of, run_user_code, split_spec

NAMES = ("top1", "top5", "auc", "mse", "mae")
"""Metrics with names; `top` accepts any number."""
USER_RULE = "a metric is function(outputs, labels) → a number, or a dict of numbers by name"


@dataclass(frozen=True)
class Batch:
    """Several samples: float outputs, labels, inputs and origins."""

    outputs: tuple[Array, ...]
    """Outputs, each [samples, …]."""
    labels: Array | None
    inputs: tuple[Array, ...]
    places: tuple[str, ...]

    @property
    def flat(self) -> Array:
        """The first output as [samples, numbers]."""
        return self.outputs[0].reshape(len(self.outputs[0]), -1)


class Metric(Protocol):
    """Accumulates batches and returns numbers."""

    def add(self, batch: Batch) -> None:
        """Adds a batch of samples."""

    def values(self) -> dict[str, float]:
        """Returns the numbers by name."""


@dataclass
class TopK:
    """Fraction of samples whose label is among the k largest numbers of the first output; ties go to the first."""

    k: int
    right: int = 0
    samples: int = 0

    def add(self, batch: Batch) -> None:
        """Counts right answers."""
        scores = batch.flat
        labels = class_labels(batch, f"top{self.k}")
        require_classes(scores, f"top{self.k}", at_least=max(2, self.k))
        own = scores[np.arange(len(scores)), labels][:, np.newaxis]
        before = np.arange(scores.shape[1]) < labels[:, np.newaxis]
        rank = ((scores > own) | ((scores == own) & before)).sum(axis=1)
        self.right += int((rank < self.k).sum())
        self.samples += len(scores)

    def values(self) -> dict[str, float]:
        """Returns the fraction."""
        return {f"top{self.k}": self.right / self.samples}


@dataclass
class Confusion:
    """Confusion matrix: rows are labels, columns are answers."""

    counts: Array | None = None

    def add(self, batch: Batch) -> None:
        """Counts the answers by label."""
        scores, labels = batch.flat, class_labels(batch, "the confusion matrix")
        if self.counts is None:
            self.counts = np.zeros((scores.shape[1], scores.shape[1]), np.int64)
        np.add.at(self.counts, (labels, scores.argmax(axis=1)), 1)

    def values(self) -> dict[str, float]:
        """Returns no numbers, because a matrix is none."""
        return {}


@dataclass
class Auc:
    """Area under the ROC curve: the probability that a sample with label 1 scores higher than one with label 0;
    ties count half.

    The score is the output if it is one number, the difference if there are two, or the mean squared
    reconstruction error if the output has the input's size and there are two labels. For more classes, it is
    averaged over each class against the rest."""

    scores: list[Array] = field(default_factory=list)
    labels: list[Array] = field(default_factory=list)
    errors: list[Array] = field(default_factory=list)
    """Reconstruction errors, if outputs have the inputs' size."""

    def add(self, batch: Batch) -> None:
        """Stores the scores."""
        scores = batch.flat.astype(np.float64)
        self.scores.append(scores)
        if scores.shape[1] <= 2:
            self.labels.append(_binary_labels(batch))
            return
        self.labels.append(class_labels(batch, "auc"))
        if batch.outputs[0].size == batch.inputs[0].size:
            self.errors.append(((scores - batch.inputs[0].reshape(scores.shape)) ** 2).mean(axis=1))

    def values(self) -> dict[str, float]:
        """Returns the area."""
        scores, labels = np.concatenate(self.scores), np.concatenate(self.labels)
        if len(np.unique(labels)) < 2:
            raise PillionError(
                "auc has no meaning here",
                rule="samples of two labels at least",
                here=f"all {len(labels):,} samples have label {labels[0]}",
                help="--metric mse, or data with both kinds; --limit may have left one of them out: shuffle the data",
            )
        if self.errors and labels.max() == 1:
            return {"auc": _roc_area(np.concatenate(self.errors), labels == 1)}
        if scores.shape[1] <= 2:
            difference = scores[:, -1] - (scores[:, 0] if scores.shape[1] == 2 else 0)
            return {"auc": _roc_area(difference, labels == 1)}
        areas = [_roc_area(scores[:, c], labels == c) for c in np.unique(labels)]
        return {"auc": float(np.mean(areas))}


def _roc_area(scores: Array, positive: Array) -> float:
    """Computes the area by ranks; equal scores share their rank."""
    _, inverse, count = np.unique(scores, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks = (last - (count - 1) / 2)[inverse]
    wins = ranks[positive].sum() - positive.sum() * (positive.sum() + 1) / 2
    return float(wins / (positive.sum() * (~positive).sum()))


@dataclass
class MeanError:
    """Mean squared or absolute difference from the labels, or from the input if there are no labels and the sizes
    match."""

    name: str
    total: float = 0.0
    elements: int = 0

    def add(self, batch: Batch) -> None:
        """Adds the errors of a batch."""
        outputs = batch.flat.astype(np.float64)
        difference = outputs - _expected_output(batch, self.name)
        self.total += float((difference**2 if self.name == "mse" else np.abs(difference)).sum())
        self.elements += difference.size

    def values(self) -> dict[str, float]:
        """Returns the mean."""
        return {self.name: self.total / self.elements}


@dataclass
class UserMetric:
    """A user's metric, called once with all outputs and labels."""

    spec: str
    function: Callable[..., Any] | None = None
    outputs: list[tuple[Array, ...]] = field(default_factory=list)
    labels: list[Array] = field(default_factory=list)

    def add(self, batch: Batch) -> None:
        """Stores the outputs."""
        self.outputs.append(batch.outputs)
        if batch.labels is not None:
            self.labels.append(batch.labels)

    def values(self) -> dict[str, float]:
        """Calls the function and returns its numbers."""
        function = self.function or function_of(self.spec, USER_RULE)
        outputs = [np.concatenate(parts) for parts in zip(*self.outputs, strict=True)]
        labels = np.concatenate(self.labels) if self.labels else None
        argument = outputs[0] if len(outputs) == 1 else outputs
        result = run_user_code(function, self.spec, argument, labels, rule=USER_RULE)
        name = split_spec(self.spec)[1] or self.spec
        named = result if isinstance(result, Mapping) else {name: result}
        return {str(key): self._number(key, number) for key, number in named.items()}

    def _number(self, name: object, value: Any) -> float:
        if hasattr(value, "item") and getattr(value, "size", 1) == 1:
            value = value.item()
        if isinstance(value, numbers.Real) and math.isfinite(float(value)):
            return float(value)
        raise PillionError(
            f"{self.spec} gives no number",
            rule=USER_RULE,
            here=f"{name} is {value!r}"[:120],
            help="return float(…)",
        )


def metric_of(asked: object) -> Metric:
    """Returns the metric for a name, `file.py:function`, or a function."""
    if callable(asked):
        return UserMetric(getattr(asked, "__name__", "metric"), asked)
    asked = str(asked)
    top = re.fullmatch(r"top([1-9]\d{0,3})", asked)
    if top:
        return TopK(int(top[1]))
    if asked == "auc":
        return Auc()
    if asked in ("mse", "mae"):
        return MeanError(asked)
    if split_spec(asked)[1]:
        return UserMetric(asked, function_of(asked, USER_RULE))
    raise PillionError(
        f"no metric {asked}",
        rule=f"{', '.join(NAMES)} (top with any number), or file.py:function",
        here=asked,
        help="--metric top1",
    )


def default_metrics(
    outputs: Sequence[int], first: Array | None, inputs: Sequence[int], *, is_compared: bool = False
) -> tuple[str, ...]:
    """Returns the default metrics for the outputs' sizes and the first label. May be empty without labels if
    answers are compared with another model or executor."""
    if first is None:
        if outputs[0] == inputs[0]:
            return ("mse",)
        if is_compared:
            return ()
        raise no_labels_error("a metric")
    if first.ndim == 0 and first.dtype.kind in "iub" and outputs[0] > 1:
        if outputs[0] == inputs[0]:
            raise PillionError(
                "the metric has to be named",
                rule="outputs as large as inputs, with a class for each sample, may be classes or a reconstruction",
                here=f"{inputs[0]} numbers go in and come out",
                help="--metric top1 for classes, --metric auc where an error of reconstruction tells label 1 from 0",
            )
        return ("top1", "top5") if outputs[0] > 10 else ("top1",)
    return ("mse",)


def class_labels(batch: Batch, metric: str) -> Array:
    """Returns labels as class numbers. Raises if a label is not a class of the model."""
    labels = _required_labels(batch, metric)
    classes = batch.flat.shape[1]
    flat = labels.reshape(len(labels), -1)
    if flat.shape[1] != 1:
        raise PillionError(
            f"{metric} needs a class for each sample",
            rule="a label is one whole number, that of its class",
            here=f"labels of shape {list(labels.shape[1:])}",
            help="labels.argmax(1) makes numbers of one-hot labels; --metric mse compares numbers",
        )
    class_numbers = flat[:, 0]
    bad = np.flatnonzero(
        (class_numbers < 0) | (class_numbers >= classes) | (class_numbers != np.floor(class_numbers))
    )
    if len(bad):
        raise PillionError(
            f"the label of {batch.places[int(bad[0])]} is no class of the model",
            rule=f"labels are whole numbers from 0 to {classes - 1}: the model's first output has {classes} numbers",
            here=f"{class_numbers[bad[0]]}",
            help="are labels counted from 1, or of another data set? --classes names the classes in the order of the outputs",
        )
    return class_numbers.astype(np.int64)


def require_classes(scores: Array, metric: str, at_least: int) -> None:
    """Raises if the output has too few numbers for classes."""
    if scores.shape[1] < at_least:
        raise PillionError(
            f"{metric} has no meaning for this model",
            rule=f"a first output with a number for each of {at_least} classes at least",
            here=f"{scores.shape[1]} numbers",
            help="--metric auc or --metric mse" if scores.shape[1] == 1 else "--metric top1",
        )


def _binary_labels(batch: Batch) -> Array:
    labels = _required_labels(batch, "auc").reshape(len(batch.flat), -1)
    bad = labels[(labels != 0) & (labels != 1)]
    if labels.shape[1] != 1 or bad.size:
        raise PillionError(
            "auc needs labels 0 and 1",
            rule="with one score for each sample, label 1 is what is looked for, and 0 all else",
            here=f"label {bad[0]}" if bad.size else f"labels of shape {list(labels.shape[1:])}",
            help="labels = (labels == what_is_looked_for).astype(int)",
        )
    return labels[:, 0].astype(np.int64)


def _expected_output(batch: Batch, metric: str) -> Array:
    """Returns the expected first output: the labels, or the input."""
    targets = batch.flat
    if batch.labels is not None:
        labels = batch.labels.reshape(len(targets), -1)
        if labels.shape == targets.shape:
            return labels.astype(np.float64)
        raise PillionError(
            f"the labels are not what {metric} compares with",
            rule=f"a label has the {targets.shape[1]} numbers of the first output",
            here=f"{labels.shape[1]} numbers",
            help="--metric top1 for classes"
            if labels.shape[1] == 1
            else "save targets of the output's shape",
        )
    if batch.outputs[0].size == batch.inputs[0].size:
        return batch.inputs[0].reshape(targets.shape).astype(np.float64)
    raise no_labels_error(metric)


def _required_labels(batch: Batch, metric: str) -> Array:
    if batch.labels is None:
        raise no_labels_error(metric)
    return batch.labels


def no_labels_error(metric: str) -> PillionError:
    """Returns the error for a metric of data without labels."""
    return PillionError(
        f"{metric} needs labels, and the data has none",
        rule="samples come with labels: a folder for each class, an array named y, a column named label, or pairs",
        here="no labels",
        help="--labels FILE.npy; without labels and without --metric, --float MODEL compares with a float model, --agree reference with the exact one",
    )
