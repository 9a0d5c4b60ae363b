# SPDX-License-Identifier: Apache-2.0
"""Reads TFLite_Detection_PostProcess, the custom operator at the end of detectors."""

from __future__ import annotations

import numpy as np

from pillion.codecs.tflite.read_operator import Reading, ReadOperator
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, TensorType, Value, constant_value
from pillion.ops.detections import Detections, parts
from pillion.ops.formats import Dequantize
from pillion.ops.movement import Reshape, Slice
from pillion.schemas import flexbuffer

NAME = "TFLite_Detection_PostProcess"
WANTED = ("max_detections", "num_classes", "nms_score_threshold", "nms_iou_threshold")
SCALES = ("y_scale", "x_scale", "h_scale", "w_scale")
PER_CLASS = 100
"""The default number of boxes per class."""


def detections(call: ReadOperator) -> list[Op]:
    """Returns an op that computes all numbers as one vector, and the slices of the four results."""
    options = flexbuffer.read_map_numbers(call.custom)
    missing = [name for name in (*WANTED, *SCALES) if name not in options]
    if missing or options.get("max_classes_per_detection", 1) != 1:
        rule = f"it says {', '.join((*WANTED, *SCALES))}, and gives a box one class"
        raise call.refuse(rule, f"without {', '.join(missing)}" if missing else f"{options}")
    before: list[Op] = []
    boxes, scores = (_float_operand(call, call.operand(number), before) for number in (0, 1))
    most, by_class = int(options["max_detections"]), int(options.get("detections_per_class", PER_CLASS))
    combined = Value(
        call.fresh(f"{call.outputs[0].name}/all"), TensorType((max(6 * most + 1, 0),), DType.FLOAT32)
    )
    op = Detections(
        boxes=boxes,
        scores=scores,
        anchors=_float_anchors(call),
        y=combined,
        most=most,
        classes=int(options["num_classes"]),
        by_class=by_class if options.get("use_regular_nms", False) else 0,
        score_threshold=float(options["nms_score_threshold"]),
        iou_threshold=float(options["nms_iou_threshold"]),
        scales=tuple(float(options[name]) for name in SCALES),
        source=call.source,
    )
    op.check()
    return [*before, op, *_result_slices(call, combined, most)]


def _float_operand(call: ReadOperator, x: Value, before: list[Op]) -> Value:
    """Returns the operand in float32; LiteRT also accepts quantized uint8."""
    if x.dtype is DType.FLOAT32:
        return x
    if not call.is_unsigned or x.dtype is not DType.INT8 or not isinstance(x.type.quant, PerTensor):
        raise call.refuse("boxes and scores are float32, or uint8 with one scale", repr(x))
    y = Value(call.fresh(f"{x.name}/real"), TensorType(x.shape, DType.FLOAT32))
    before.append(Dequantize(x=x, y=y, source=call.source))
    return y


def _float_anchors(call: ReadOperator) -> Value:
    """Returns the anchors in float32; the file may have them quantized."""
    anchors, boxes = call.constant(2), call.operand(0)
    if anchors.dtype is boxes.dtype is DType.FLOAT32:
        return anchors
    if anchors.dtype is not boxes.dtype or not isinstance(anchors.type.quant, PerTensor):
        raise call.refuse("anchors are float32 as boxes are, or uint8 with one scale as those", repr(anchors))
    levels = anchors.constant.astype(np.int32) - anchors.zero_point
    return constant_value(
        call.fresh(f"{anchors.name}/real"), levels.astype(np.float32) * np.float32(anchors.scale)
    )


def _result_slices(call: ReadOperator, combined: Value, most: int) -> list[Op]:
    if len(call.outputs) != 4:
        raise call.refuse(
            "there are four results: boxes, classes, scores and their number", len(call.outputs)
        )
    ops: list[Op] = []
    for y, (first, shape) in zip(call.outputs, parts(most), strict=True):
        if y.type == TensorType((), DType.FLOAT32):  # many files have no shape
            unshaped, y = y, Value(y.name, TensorType(shape, DType.FLOAT32))
            call.bind(unshaped, y)
        if y.type != TensorType(shape, DType.FLOAT32):
            raise call.refuse(f"a result is float32{list(shape)}", repr(y))
        count = y.type.elements
        part = Value(call.fresh(f"{y.name}/part"), TensorType((count,), DType.FLOAT32))
        ops.append(Slice(x=combined, y=part, begin=(first,), step=(1,), source=call.source))
        ops.append(Reshape(x=part, y=y, source=call.source))
    return ops


ROWS: dict[str, Reading] = {f"CUSTOM {NAME}": detections}
"""The readers of this file, by operator name."""
