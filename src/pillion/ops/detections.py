# SPDX-License-Identifier: Apache-2.0
"""Detection post-processing: decodes boxes and suppresses overlaps, bit for bit like LiteRT's
TFLite_Detection_PostProcess.

Everything is computed in float32 except centers and sizes of boxes, which are computed in double precision and
rounded once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, Quantization, op, operand, require_dtype, require_rank, result
from pillion.ir.types import Array, DType, Shape, TensorType, Value, constant_value
from pillion.ops.example_values import float_value, make_op

Reals = NDArray[np.float32]
Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]
FARTHEST = 700.0
"""Exponents beyond this are infinite or 0 in float32; NaN counts as the smallest."""
LOG2_E, LN2_HIGH, LN2_LOW = 1.4426950408889634, 0.6931471803691238, 1.9082149292705877e-10
"""1 / log 2, and log 2 in two parts; the first has few bits."""
TERMS = tuple(1 / math.factorial(n) for n in range(13, -1, -1))
"""Coefficients of the exponential series, the last first."""
MOST_FOUND = 2**16
"""The maximum number of boxes in the result."""


def exp64(x: Doubles) -> Doubles:
    """Computes the exponential in double precision with operations that round the same on every machine."""
    x = np.clip(np.nan_to_num(x, nan=-FARTHEST), -FARTHEST, FARTHEST)
    power = np.trunc(x * LOG2_E + np.where(x < 0, -0.5, 0.5))
    rest = (x - power * LN2_HIGH) - power * LN2_LOW
    series = np.full(x.shape, TERMS[0])
    for term in TERMS[1:]:
        series = series * rest + term
    return np.asarray(np.ldexp(series, power.astype(np.int64)), np.float64)


@op("detections", quantization=Quantization.NONE)
class Detections(Op):
    """Decodes boxes around anchors, drops boxes with low scores and boxes that overlap better ones, and returns
    the rest, best first.

    The result is one vector: top, left, bottom and right of each of `most` boxes, then all classes, then all
    scores, then the number of boxes; unused entries are 0. `scales` divide the codes of a box (y, x, height,
    width). With `by_class`, boxes suppress only boxes of their own class, and at most `by_class` boxes per
    class remain; otherwise each box has its best class."""

    is_identity = False
    why_whole = "all boxes are compared with each other"

    boxes: Value = operand()
    scores: Value = operand()
    anchors: Value = operand()
    y: Value = result()
    most: int
    classes: int
    by_class: int = 0
    score_threshold: float
    iou_threshold: float
    scales: tuple[float, ...] = (10.0, 10.0, 5.0, 5.0)

    @property
    def first_class(self) -> int:
        """The number of scores before the first class: 1 if there is a background class, otherwise 0."""
        return self.scores.shape[2] - self.classes

    def infer(self) -> TensorType:
        return TensorType((6 * self.most + 1,), DType.FLOAT32)

    def check(self) -> None:
        for v in (self.boxes, self.scores):
            require_rank(self, v, 3)
            require_dtype(self, v, DType.FLOAT32)
        require_rank(self, self.anchors, 2)
        require_dtype(self, self.anchors, DType.FLOAT32)
        count = self.boxes.shape[1]
        fits = self.boxes.shape[0] == self.scores.shape[0] == 1 and self.boxes.shape[2] >= 4 and count > 0
        if not fits or (self.scores.shape[1], self.anchors.shape) != (count, (count, 4)):
            raise self.refuse(
                "one image, and for each box four codes at least, scores, and an anchor of four numbers",
                f"{self.boxes!r}, {self.scores!r}, {self.anchors!r}",
            )
        if not self.anchors.is_constant:
            raise self.refuse("anchors are constants", repr(self.anchors))
        self._check_numbers()

    def _check_numbers(self) -> None:
        if not 1 <= self.most <= MOST_FOUND or self.classes < 1 or self.by_class < 0:
            raise self.refuse(
                f"1 to {MOST_FOUND} boxes are found, of one class at least", f"{self.most}, {self.classes}"
            )
        if self.first_class not in (0, 1):
            raise self.refuse(
                "a score for each class, and maybe one for the background",
                f"{self.classes} classes, {self.scores!r}",
            )
        with np.errstate(over="ignore"):
            numbers = np.array([*self.scales, self.score_threshold, self.iou_threshold], np.float32)
        is_wrong = len(self.scales) != 4 or 0 in numbers[:-2] or not np.isfinite(numbers).all()
        if is_wrong or not 0 < self.iou_threshold <= 1:
            raise self.refuse("four scales, and an overlap up to 1", numbers.tolist())

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        boxes, scores, anchors = (x.astype(np.float32) for x in operands)
        with np.errstate(all="ignore"):
            corners = self.corners(boxes[0, :, :4], anchors)
            of_classes = np.where(np.isnan(scores), -np.inf, scores)[0, :, self.first_class :]
            selected = (
                self._select_by_class(corners, of_classes)
                if self.by_class
                else self._select_class_agnostic(corners, of_classes)
            )
        output = np.zeros(6 * self.most + 1, np.float32)
        for number, (box, kind, score) in enumerate(selected):
            output[4 * number : 4 * number + 4] = corners[box]
            output[4 * self.most + number] = kind
            output[5 * self.most + number] = score
        output[-1] = len(selected)
        return output

    def corners(self, codes: Reals, anchors: Reals) -> Reals:
        """Returns top, left, bottom and right of each box."""
        a = anchors.astype(np.float64)
        parts = codes.astype(np.float64) / np.array(self.scales, np.float32).astype(np.float64)
        center = (parts[:, :2] * a[:, 2:] + a[:, :2]).astype(np.float32)
        half = (0.5 * exp64(parts[:, 2:]) * a[:, 2:]).astype(np.float32)
        return np.concatenate([center - half, center + half], axis=1)

    def _select_class_agnostic(self, corners: Reals, scores: Reals) -> list[tuple[int, int, float]]:
        kinds, best = scores.argmax(axis=1), scores.max(axis=1)
        boxes = self._suppress_overlaps(corners, best, self.most)
        return [(box, int(kinds[box]), float(best[box])) for box in boxes]

    def _select_by_class(self, corners: Reals, scores: Reals) -> list[tuple[int, int, float]]:
        detections: list[tuple[int, int, float]] = []
        for kind in range(self.classes):
            boxes = self._suppress_overlaps(corners, scores[:, kind], min(self.by_class, self.most))
            detections += [(box, kind, float(scores[box, kind])) for box in boxes]
            detections = sorted(detections, key=lambda detection: -detection[2])[: self.most]
        return detections

    def _suppress_overlaps(self, corners: Reals, scores: Reals, most: int) -> list[int]:
        """Returns the boxes with the best scores; none overlaps a better one too much."""
        candidates = np.flatnonzero(scores >= np.float32(self.score_threshold))
        candidates = candidates[np.argsort(-scores[candidates], kind="stable")]
        selected: list[int] = []
        while len(candidates) and len(selected) < most:
            first, candidates = candidates[0], candidates[1:]
            selected.append(int(first))
            candidates = candidates[
                ~(
                    intersection_over_union(corners[first], corners[candidates])
                    > np.float32(self.iou_threshold)
                )
            ]
        return selected

    @classmethod
    def examples(cls) -> Iterator[Op]:
        cases = ((1, 1, 0, 0, 1), (20, 3, 0, 1, 5), (33, 4, 7, 1, 9), (17, 2, 0, 0, 4), (50, 1, 3, 1, 20))
        for number, (count, classes, by_class, background, most) in enumerate(cases):
            rng = np.random.default_rng(number)
            anchors = np.concatenate([rng.random((count, 2)), 0.1 + rng.random((count, 2))], axis=1)
            yield make_op(
                cls,
                float_value("y", ()),
                boxes=float_value("boxes", (1, count, 4 + number % 2)),
                scores=float_value("scores", (1, count, classes + background)),
                anchors=constant_value("anchors", anchors.astype(np.float32)),
                most=most,
                classes=classes,
                by_class=by_class,
                score_threshold=(0.2, -1e8)[number % 2],
                iou_threshold=(0.5, 0.6, 1.0)[number % 3],
            )


def max_like_c_comparison(a: Any, b: Any) -> Reals:
    """Returns the larger number; the second one if they do not compare."""
    return np.asarray(np.where(a > b, a, b), np.float32)


def smaller_number(a: Any, b: Any) -> Reals:
    """Returns the smaller number; the second one if they do not compare."""
    return np.asarray(np.where(a < b, a, b), np.float32)


def intersection_over_union(box: Reals, others: Reals) -> Reals:
    """Returns the intersection over union of a box with every other box; 0 for boxes without area."""
    area = (box[2] - box[0]) * (box[3] - box[1])
    areas = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    height, width = (
        max_like_c_comparison(
            smaller_number(box[n + 2], others[:, n + 2]) - max_like_c_comparison(box[n], others[:, n]),
            np.float32(0),
        )
        for n in (0, 1)
    )
    common = height * width
    with np.errstate(all="ignore"):
        ratio = common / (area + areas - common)
    return np.asarray(np.where((area <= 0) | (areas <= 0), np.float32(0), ratio), np.float32)


def parts(places: int) -> tuple[tuple[int, Shape], ...]:
    """Returns offsets and shapes of boxes, classes, scores and their count in the result."""
    return (0, (1, places, 4)), (4 * places, (1, places)), (5 * places, (1, places)), (6 * places, (1,))
