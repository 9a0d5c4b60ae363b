# SPDX-License-Identifier: Apache-2.0
"""What ops cost on an Ethos-U: a formula beside what Vela says of single ops, whose own estimates it resembles."""

from __future__ import annotations

import math

from pillion.devices.ethos_u.accelerators import Accelerator
from pillion.devices.ethos_u.limits import image_of
from pillion.ir.op import Op
from pillion.ops import (
    Add,
    AvgPool2d,
    BatchMatmul,
    Concat,
    Conv2d,
    DepthwiseConv2d,
    Linear,
    Maximum,
    MaxPool2d,
    Mean,
    Minimum,
    Mul,
    Pad,
    Prelu,
    Reshape,
    ResizeBilinear,
    Softmax,
    Sub,
    TransposeConv2d,
)

DISPATCH_CYCLES = 3000
"""Starting the NPU and being told by its interrupt (an estimate)."""
FLASH_BYTES_PER_CYCLE = 1.0
"""Vela's usual system for U55 reads 0.47 GB/s at 500 MHz, weights packed."""
_SETUP = 100
_SOFTMAX_SETUP = 4000
"""It is taken apart into some thirty operations."""
_MEASURED_MACS = 128
"""The size at which the factors below were compared with Vela 5.2: single ops of 1,000 elements and more, their median."""
_EACH: dict[type[Op], float] = {
    Add: 1.8,
    Sub: 1.8,
    Mul: 0.9,
    Maximum: 1.0,
    Minimum: 1.0,
    Softmax: 20.0,
    Mean: 1.5,
    Prelu: 17.0,
    Concat: 2.0,
    Pad: 4.0,
}
"""Cycles for each element, of the result or of what a mean is taken of; of all others 1.4."""
_USUAL = 1.4
_SCATTERED = 4.0
"""By how much longer it takes to move several images: row by row."""
_BILINEAR = 0.7
"""Cycles for each element of a result, and each pixel that it is between."""
_EACH_TAP = 0.26
"""Cycles for each element of a pool's windows."""
_LONG_STRIDE = 3
_SPLIT = 1.02
"""Cycles for each multiply-accumulate of what is taken apart into many small operations: a stride of more than 3, a matrix product."""
_MULTIPLIED = 0.45
"""The same of a depthwise convolution with several results for each input."""


def estimate(op: Op, accelerator: Accelerator) -> int:
    """Estimates the cycles of one op."""
    if isinstance(op, Reshape):
        return 0
    wide = _MEASURED_MACS / accelerator.macs
    return _SETUP + int(max(_work(op, accelerator) * wide, _flash(op)))


def _flash(op: Op) -> float:
    """Weights are read from flash while the NPU works."""
    return sum(v.type.size_bytes for v in op.operands if v.is_constant) / FLASH_BYTES_PER_CYCLE


def _work(op: Op, accelerator: Accelerator) -> float:
    """The cycles of an NPU of 128 multiply-accumulates."""
    result = op.results[0].type.elements
    match op:
        case Conv2d() if max(op.stride) > _LONG_STRIDE:
            return _SPLIT * op.macs
        case Conv2d() | TransposeConv2d():
            channels = _eights(op.results[0].shape[-1]) * _eights(op.x.shape[-1])
            pixels = max(result // op.results[0].shape[-1], 1)
            return 1.3 * pixels * math.prod(op.kernel) * channels / _MEASURED_MACS
        case DepthwiseConv2d():
            each = 0.1 if op.depth_multiplier == 1 else _MULTIPLIED
            return each * result // op.y.shape[-1] * _eights(op.y.shape[-1]) * math.prod(op.kernel)
        case Linear():
            return op.macs / 8
        case BatchMatmul():
            return _SPLIT * op.macs
        case AvgPool2d() | MaxPool2d():
            return _EACH_TAP * result * math.prod(op.kernel)
        case Mean():
            return _EACH[Mean] * op.x.type.elements
        case ResizeBilinear():
            return _BILINEAR * result * result / max(op.x.type.elements, 1)
        case Softmax():
            return _SOFTMAX_SETUP + _EACH[Softmax] * result
        case _:
            images = image_of(op.results[0].shape)[0] > 1 and isinstance(op, (Concat, Pad))
            return _EACH.get(type(op), _USUAL) * result * (_SCATTERED if images else 1.0)


def _eights(channels: int) -> int:
    return -(-channels // 8) * 8
