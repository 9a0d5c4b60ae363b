# SPDX-License-Identifier: Apache-2.0
"""Writes detections as LiteRT's custom operator; its four results are concatenated to one vector."""

from __future__ import annotations

from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from pillion.codecs.tflite.node import Node, int32_constant
from pillion.ir.types import DType, TensorType, Value
from pillion.ops.detections import Detections, parts
from pillion.schemas import tflite

BUILDER: Any = flexbuffers.Builder
"""The builder has no type annotations."""
CODE = "CUSTOM TFLite_Detection_PostProcess"
NAMES = ("boxes", "classes", "scores", "count")
SCALES = ("y_scale", "x_scale", "h_scale", "w_scale")


def detections(op: Detections) -> list[Node]:
    """Returns the operator and the concatenation of its results."""
    outputs, flat, nodes = [], [], list[Node]()
    for name, (_, shape) in zip(NAMES, parts(op.most), strict=True):
        y = Value(f"{op.name}/{name}", TensorType(shape, DType.FLOAT32))
        row = Value(f"{op.name}/{name}_row", TensorType((y.type.elements,), DType.FLOAT32))
        outputs.append(y)
        flat.append(row)
        options = tflite.ReshapeOptions(new_shape=list(row.shape))
        nodes.append(Node("RESHAPE", (y, int32_constant(f"{row.name}/shape", row.shape)), (row,), options))
    first = Node(CODE, (op.boxes, op.scores, op.anchors), tuple(outputs), custom=_options_flexbuffer(op))
    joined = Node("CONCATENATION", tuple(flat), (op.y,), tflite.ConcatenationOptions(axis=0))
    return [first, *nodes, joined]


def _options_flexbuffer(op: Detections) -> bytes:
    """Returns the operator's options as a FlexBuffers map."""
    builder = BUILDER()
    with builder.Map():
        builder.Int("max_detections", op.most)
        builder.Int("max_classes_per_detection", 1)
        builder.Int("detections_per_class", op.by_class or 1)
        builder.Bool("use_regular_nms", op.by_class > 0)
        builder.Float("nms_score_threshold", float(np.float32(op.score_threshold)))
        builder.Float("nms_iou_threshold", float(np.float32(op.iou_threshold)))
        builder.Int("num_classes", op.classes)
        for name, scale in zip(SCALES, op.scales, strict=True):
            builder.Float(name, float(np.float32(scale)))
    return bytes(builder.Finish())
