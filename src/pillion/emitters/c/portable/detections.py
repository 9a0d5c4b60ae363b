# SPDX-License-Identifier: Apache-2.0
"""The portable kernel of detection postprocessing (non-maximum suppression) in float32."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import has_dtypes
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.ir.types import DType
from pillion.ops.detections import Detections


def params(op: Detections) -> Params:
    """Returns the parameters of the detection postprocessing."""
    return {
        **{"boxes": op.boxes.shape[1], "boxes_step": op.boxes.shape[2], "scores_step": op.scores.shape[2]},
        "score_threshold": float(np.float32(op.score_threshold)),
        "iou_threshold": float(np.float32(op.iou_threshold)),
        "scales": np.array(op.scales, np.float32).astype(np.float64),
        "anchors": op.anchors.constant,
    }


def scratch_bytes(op: Detections) -> int:
    """Returns the scratch bytes: corners, score, class and a mark of each box, and the selected boxes."""
    return 25 * op.boxes.shape[1] + 12 * op.most


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(
        Detections,
        "detections_f32",
        params,
        requires=(has_dtypes("boxes scores", DType.FLOAT32),),
        scratch_bytes=scratch_bytes,
        name="detections",
    ),
)
