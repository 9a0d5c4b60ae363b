# SPDX-License-Identifier: Apache-2.0
"""Non-maximum suppression of quantized boxes. The postprocessing of LiteRT's detectors is in detections.py."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pillion.ir.access import Access, AxisMap
from pillion.ir.numerics import Arithmetic, Int64Array
from pillion.ir.op import Op, op, operand, result
from pillion.ir.types import Array, DType, TensorType, Value
from pillion.ops.example_values import ZERO_POINTS, in_16_bits, make_op, value

SHARE_BITS = 31
"""Fraction bits of the share of two areas that two boxes may have in common."""


@op("non_max_suppression")
class NonMaxSuppression(Op):
    """Returns the positions of the `most` best boxes as int32, the best first, none of which overlaps a better one; -1 where no
    score above `score_threshold` is left. Of equal scores the first is better.

    Boxes [..., number, 4] are left, top, right and bottom, scores are [..., number]. Boxes overlap if they have more in common than
    `iou_threshold / (1 + iou_threshold)` of the sum of their areas, which is exact: areas are products of levels."""

    takes_int16 = True
    is_identity = False

    boxes: Value = operand()
    scores: Value = operand()
    y: Value = result()
    most: int
    iou_threshold: float
    score_threshold: float

    @property
    def share(self) -> int:
        """The share of the sum of two areas that boxes may have in common, in 2^-31; rounded up, so that ties do not
        overlap."""
        return math.ceil(self.iou_threshold / (1 + self.iou_threshold) * 2**SHARE_BITS)

    @property
    def threshold(self) -> int:
        """The highest level of a score that does not count."""
        low, high = self.scores.dtype.bounds
        level = math.floor(self.score_threshold / self.scores.scale) + self.scores.zero_point
        return min(max(level, low - 1), high)

    def access(self, operand: Value) -> Access:
        images = self.scores.type.rank - 1
        why = "all boxes of an image are compared with each other"
        return tuple(AxisMap(axis) if axis < images else why for axis in range(operand.type.rank))

    def infer(self) -> TensorType:
        return TensorType((*self.scores.shape[:-1], self.most), DType.INT32)

    def check(self) -> None:
        shape = self.scores.shape
        if not shape or not shape[-1] or self.boxes.shape != (*shape, 4):
            here = f"{list(self.boxes.shape)} and {list(shape)}"
            raise self.refuse("boxes are [..., number, 4] and scores [..., number]", here)
        if self.most < 1 or not 0 < self.iou_threshold < 1 or not math.isfinite(self.score_threshold):
            here = f"{self.most}, {self.iou_threshold} and {self.score_threshold}"
            raise self.refuse("1 box or more, an overlap between 0 and 1, a finite score", here)
        types = {self.boxes.dtype, self.scores.dtype}
        if len(types) > 1 and DType.FLOAT32 not in types:  # a constant is quantized first
            raise self.refuse("boxes and scores have one type", f"{self.boxes!r}, {self.scores!r}")

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        boxes, scores = (x.astype(np.int64) for x in operands)
        y = np.full((scores[..., 0].size, self.most), -1, np.int32)
        for image, (corners, levels) in enumerate(
            zip(boxes.reshape(len(y), -1, 4), scores.reshape(len(y), -1), strict=True)
        ):
            places = np.argsort(-levels, kind="stable")
            places = places[levels[places] > self.threshold]
            for number in range(self.most):
                if len(places):
                    y[image, number] = best = places[0]
                    places = places[1:]
                    places = places[~self._overlap(corners[best], corners[places])]
        return y.reshape(self.y.shape)

    def _overlap(self, box: Int64Array, others: Int64Array) -> NDArray[np.bool_]:
        """Returns whether a box overlaps each other box."""
        common = _areas(np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:]))
        both = _areas(box[:2], box[2:]) + _areas(others[:, :2], others[:, 2:])
        return np.asarray((common << SHARE_BITS) > both * self.share, np.bool_)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        shapes = ((2, 11), (1, 1), (2, 3, 17), (5,), (1, 50), (3, 7))
        for number, (shape, most) in enumerate(zip(shapes, (4, 3, 5, 7, 20, 1), strict=True)):
            zero_point = ZERO_POINTS[number % 4]
            boxes, scores = value("boxes", (*shape, 4), 0.5), value("scores", shape, 1 / 256, zero_point)
            fields = {"most": most, "iou_threshold": (0.5, 0.03, 0.9)[number % 3]}
            y = Value("y", TensorType((), DType.INT32))
            for wide in (False, True):
                both = {v.name: in_16_bits(v) if wide else v for v in (boxes, scores)}
                yield make_op(cls, y, **both, **fields, score_threshold=(0.1, -1.0, 0.25)[number % 3])


def _areas(low: Int64Array, high: Int64Array) -> Int64Array:
    """Returns the areas between corners, 0 where they are crossed."""
    sides: Int64Array = np.maximum(high - low, 0)
    return np.asarray(sides[..., 0] * sides[..., 1])
