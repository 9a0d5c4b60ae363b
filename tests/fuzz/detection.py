# SPDX-License-Identifier: Apache-2.0
"""How what detectors end in gets its operands: boxes and scores are inputs of real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzz.grow import Grower
from pillion.ir.op import Op
from pillion.ir.types import DType, TensorType, Value, constant_value
from pillion.ops import Detections


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


RECIPES: dict[type[Op], Any] = {Detections: detected}
