# SPDX-License-Identifier: Apache-2.0
"""How what detectors end in gets its operands: boxes and scores are inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.grow import Grower
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, TensorType, Value, constant_value
from pillion.ops import Detections, NonMaxSuppression, RunLengths


def detected(grower: Grower, cls: type[Detections]) -> Value:
    count, classes, background = (grower.choices.pick(s) for s in ((5, 1, 33), (3, 1, 2), (1, 0)))
    boxes, scores = (
        grower.source(Value(grower.name(name), TensorType((1, count, width), DType.FLOAT32)))
        for name, width in (("boxes", 4), ("scores", classes + background))
    )
    rng = np.random.default_rng(grower.choices.integer(0, 999))
    anchors = constant_value(grower.name("anchors"), (rng.random((count, 4)) + 0.1).astype(np.float32))
    numbers: dict[str, Any] = {
        "most": grower.choices.pick((4, 1, 10)),
        "by_class": grower.choices.pick((0, 2, 100)),
        "score_threshold": grower.choices.pick((0.1, -1e8)),
        "iou_threshold": grower.choices.pick((0.5, 0.1, 1.0)),
        "scales": (10.0, 10.0, 5.0, 5.0),
    }
    operands: dict[str, Any] = {"boxes": boxes, "scores": scores, "anchors": anchors}
    return grower.put(cls, DType.FLOAT32, None, **operands, classes=classes, **numbers)


def suppressed(grower: Grower, cls: type[NonMaxSuppression]) -> Value:
    """Of inputs of their own, in 8 or 16 bits."""
    lead = grower.choices.pick(((1,), (3,), ()))
    shape = (*lead, grower.choices.integer(1, 60))
    dtype = grower.choices.pick((DType.INT8, DType.INT16))
    boxes, scores = (
        grower.source(Value(grower.name(name), TensorType(of, dtype, PerTensor(scale))))
        for name, of, scale in (("boxes", (*shape, 4), 0.5), ("scores", shape, 1 / 128))
    )
    fields: dict[str, Any] = {
        "most": grower.choices.pick((4, 1, 10)),
        "iou_threshold": grower.choices.pick((0.5, 0.1, 0.9)),
        "score_threshold": grower.choices.pick((0.1, -2.0)),
    }
    return grower.put(cls, DType.INT32, None, boxes=boxes, scores=scores, **fields)


def runs(grower: Grower, cls: type[RunLengths]) -> Value:
    """Of whole numbers that are inputs of their own: few of them, or of many sizes."""
    shape = (*grower.choices.pick(((1,), (3,), ())), grower.choices.integer(1, 60))
    x = grower.source(Value(grower.name("labels"), TensorType(shape, DType.INT32)))
    return grower.put(cls, DType.INT32, None, x=x, most=grower.choices.pick((4, 1, 70)))


RECIPES: dict[type[Op], Any] = {
    Detections: detected,
    NonMaxSuppression: suppressed,
    RunLengths: runs,
}
