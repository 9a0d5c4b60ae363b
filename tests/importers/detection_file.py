# SPDX-License-Identifier: Apache-2.0
"""TFLite files that end in TFLite_Detection_PostProcess."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flatbuffers import flexbuffers
from streaming_file import StreamingFile

from pillion.ir.types import Array
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import write_flatbuffer
from pillion.schemas.tflite import ElementType

NAME = "TFLite_Detection_PostProcess"


def options(**named: Any) -> Array:
    """The bytes in which a custom operator says how it works."""
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in named.items():
            match value:
                case bool():
                    builder.Bool(name, value)
                case int():
                    builder.Int(name, value)
                case _:
                    builder.Float(name, value)
    return np.frombuffer(bytes(builder.Finish()), np.uint8)


@dataclass
class DetectionFile:
    """Boxes and scores, int8 or float32 from outside, then the operator."""

    boxes: int = 20
    classes: int = 3
    background: int = 1
    is_int8: bool = True
    codes: int = 4
    named: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    is_uint8: bool = False
    """Whether boxes and scores are uint8, which the operator takes as they are."""
    is_open: bool = False
    """Whether results have no shape, which only the operator knows."""
    box_scale: float = 0.08
    score_scale: float = 1 / 256

    def settings(self) -> dict[str, Any]:
        """What the operator says of itself."""
        usual: dict[str, Any] = {
            "max_detections": 10,
            "max_classes_per_detection": 1,
            "detections_per_class": 100,
            "use_regular_nms": False,
            "nms_score_threshold": 0.3,
            "nms_iou_threshold": 0.6,
            "num_classes": self.classes,
            "y_scale": 10.0,
            "x_scale": 10.0,
            "h_scale": 5.0,
            "w_scale": 5.0,
        }
        return {name: value for name, value in (usual | self.named).items() if value is not None}

    def bytes(self) -> bytes:
        file = StreamingFile(self.seed)
        file.main.graph.operators.clear()
        file.codes.clear()
        part, width = file.main, self.classes + self.background
        shapes = (1, self.boxes, self.codes), (1, self.boxes, width)
        quants = ((self.box_scale, 3), (self.score_scale, -128))
        inputs, reals = [], []
        for shape, (scale, zero), name in zip(shapes, quants, ("boxes", "scores"), strict=True):
            if self.is_uint8:
                quant = tflite.Quantization(scale=[scale], zero_point=[zero + 128])
                inputs.append(part.tensor(shape, type=ElementType.UINT8, quantization=quant, name=name))
                reals.append(inputs[-1])
                continue
            reals.append(part.tensor(shape, type=ElementType.FLOAT32, name=f"{name}_real"))
            if self.is_int8:
                inputs.append(part.quantized(shape, scale, zero, name=name))
                part.add("DEQUANTIZE", [inputs[-1]], [reals[-1]], tflite.DequantizeOptions())
        anchors = file.rng.random((self.boxes, 4)).astype(np.float32)
        anchors[:, 2:] = anchors[:, 2:] * 0.4 + 0.05
        held = part.constant(anchors)
        if self.is_uint8:
            levels = np.round(anchors * 255).clip(0, 255).astype(np.uint8)
            held = part.constant(levels, quantization=tflite.Quantization(scale=[1 / 255], zero_point=[0]))
        most = self.settings()["max_detections"] * self.settings()["max_classes_per_detection"]
        made = [
            part.tensor(() if self.is_open else shape, type=ElementType.FLOAT32, name=name)
            for name, shape in (
                ("found", (1, most, 4)),
                ("class", (1, most)),
                ("score", (1, most)),
                ("count", (1,)),
            )
        ]
        part.add("CUSTOM", [*reals, held], made)
        part.graph.operators[-1].custom_options = options(**self.settings())
        part.graph.inputs, part.graph.outputs = inputs or reals, made
        codes = [
            tflite.OperatorCode(
                builtin_code=n, deprecated_builtin_code=min(n, 127), custom_code=NAME if n == 32 else ""
            )
            for n in map(tflite.OPERATOR_NUMBERS.__getitem__, file.codes)
        ]
        model = tflite.Model(version=3, operator_codes=codes, subgraphs=[part.graph], buffers=file.buffers)
        return write_flatbuffer(model, tflite.IDENTIFIER)
