# SPDX-License-Identifier: Apache-2.0
"""The portable kernel of detection postprocessing (non-maximum suppression) in float32."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType
from pillion.ir.verdict import Verdict
from pillion.ops.detections import Detections


def calls(op: Detections, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of the detection postprocessing."""
    params: Params = {
        "boxes": op.boxes.shape[1],
        "boxes_step": op.boxes.shape[2],
        "scores_step": op.scores.shape[2],
        "first_class": op.first_class,
        "classes": op.classes,
        "most": op.most,
        "by_class": op.by_class,
        "score_threshold": float(np.float32(op.score_threshold)),
        "iou_threshold": float(np.float32(op.iou_threshold)),
        "scales": np.array(op.scales, np.float32).astype(np.float64),
        "anchors": op.anchors.constant,
    }
    return (Call(PORTABLE.routine("detections_f32"), params, (op.boxes, op.scores), op.y),)


def check(op: Detections, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether boxes and scores are float32."""
    values = {"boxes": op.boxes, "scores": op.scores}
    return tuple(Verdict(n, v.dtype is DType.FLOAT32, "float32", v.dtype.value) for n, v in values.items())


def scratch_bytes(op: Detections) -> int:
    """Returns the scratch bytes: corners, score, class and a mark of each box, and the selected boxes."""
    return 25 * op.boxes.shape[1] + 12 * op.most


KERNELS: tuple[Kernel, ...] = (PORTABLE.kernel(Detections, calls, check, scratch_bytes=scratch_bytes),)
