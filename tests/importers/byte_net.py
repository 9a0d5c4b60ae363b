# SPDX-License-Identifier: Apache-2.0
"""Files that are uint8 throughout, layer by layer."""

from __future__ import annotations

from typing import Any

import numpy as np
from net_file import NetFile

from pillion.schemas import tflite
from pillion.schemas.tflite import ElementType, Padding


class ByteNet(NetFile):
    """A net of uint8."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed, "uint8")

    def levels(self, shape: tuple[int, ...], zero: int, fits: bool) -> int:
        """Weights around their zero point, most of them near to it; unless they fit, a few are as far off as uint8 reaches."""
        near = np.clip(np.rint(self.rng.normal(zero, 40, shape)), max(zero - 128, 0), min(zero + 127, 255))
        data = near.astype(np.uint8)
        if not fits:
            data.flat[:: max(data.size // 5, 1)] = 255 if zero < 128 else 0
        quant = tflite.Quantization(scale=[float(np.float32(0.0071))], zero_point=[zero])
        return self.constant(data, type=ElementType.UINT8, quantization=quant)

    def bias(self, count: int) -> int:
        return self.constant(self.rng.integers(-900, 900, count).astype(np.int32))

    def conv(
        self, x: int, out: int, kernel: int, stride: int, weights: tuple[int, bool], **fields: Any
    ) -> int:
        _, h, w, c = self.shape(x)
        operands = [x, self.levels((out, kernel, kernel, c), *weights), self.bias(out)]
        options = tflite.Conv2DOptions(
            padding=Padding.SAME,
            stride_h=stride,
            stride_w=stride,
            fused_activation=fields.pop("activation", 3),
        )
        y = self.tensor(1, -(-h // stride), -(-w // stride), out, **({"scale": 0.0235, "zero": 0} | fields))
        return self.add("CONV_2D", operands, y, options)

    def depthwise(self, x: int, stride: int, zero: int, fits: bool = True, **fields: Any) -> int:
        _, h, w, c = self.shape(x)
        operands = [x, self.levels((1, 3, 3, c), zero, fits), self.bias(c)]
        options = tflite.DepthwiseConv2DOptions(
            padding=Padding.SAME, stride_h=stride, stride_w=stride, depth_multiplier=1, fused_activation=3
        )
        y = self.tensor(1, -(-h // stride), -(-w // stride), c, **({"scale": 0.0235, "zero": 0} | fields))
        return self.add("DEPTHWISE_CONV_2D", operands, y, options)
