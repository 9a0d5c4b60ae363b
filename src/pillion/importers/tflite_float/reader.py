# SPDX-License-Identifier: Apache-2.0
"""Reads tensors of float files; 16-bit and quantized constants become float32."""

from __future__ import annotations

import dataclasses

import numpy as np

from pillion.importers.tflite.model import TfliteReader, unreadable_tensor_error
from pillion.ir.types import Array, Value, constant_value
from pillion.schemas import tflite
from pillion.schemas.tflite import ElementType


class FloatReader(TfliteReader):
    """Reads tensors as values with float32, integer or boolean constants."""

    is_float = True

    def make_value(self, tensor: tflite.Tensor) -> Value:
        if tensor.is_sparse:
            raise unreadable_tensor_error(
                tensor, "weights are stored whole", "convert without the sparse form of pruned weights"
            )
        if tensor.type == ElementType.FLOAT16 and tensor.buffer:
            return self._float16_as_float32(tensor)
        value = super().make_value(tensor)
        if not value.is_constant or not value.is_quantized:
            return value
        return constant_value(value.name, dequantize_constant(value))

    def _float16_as_float32(self, tensor: tflite.Tensor) -> Value:
        """Returns a float16 constant as float32."""
        stored = self.data(tensor)
        if stored is None:
            return super().make_value(tensor)
        data = stored.view("<f2").astype(np.float32)
        raw = np.ascontiguousarray(data, "<f4").view(np.uint8)
        wide = dataclasses.replace(tensor, type=int(ElementType.FLOAT32), buffer=len(self.model.buffers))
        self.model.buffers.append(tflite.Buffer(data=raw))
        return super().make_value(wide)


def dequantize_constant(value: Value) -> Array:
    """Returns the real numbers of a quantized constant."""
    levels = value.constant.astype(np.float32)
    quant = value.type.quant
    axis = getattr(quant, "axis", None)
    scales = value.channel_scales.astype(np.float32)
    if axis is None:
        return np.asarray((levels - value.zero_point) * scales[0], np.float32)
    shape = [-1 if i == axis else 1 for i in range(value.type.rank)]
    return np.asarray(levels * scales.reshape(shape), np.float32)
