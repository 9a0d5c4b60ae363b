# SPDX-License-Identifier: Apache-2.0
"""Estimated costs of ops on an Ethos-U, by a formula fitted to Vela's estimates of single ops."""

from __future__ import annotations

import math

from pillion import ops
from pillion.devices.ethos_u.accelerators import Accelerator
from pillion.devices.ethos_u.limits import image_of
from pillion.ir.op import Op

DISPATCH_CYCLES = 3000
"""The estimated cycles to start the NPU and receive its interrupt."""
FLASH_BYTES_PER_CYCLE = 1.0
"""Vela's default system for U55 reads 0.47 GB/s at 500 MHz, weights compressed."""
_SETUP = 100
_SOFTMAX_SETUP = 4000
"""Vela splits a softmax into about thirty operations."""
_MEASURED_MACS = 128
"""The NPU size at which the factors below were fitted: Vela 5.2, single ops of 1,000 elements and more,
median."""
_EACH: dict[type[Op], float] = {
    ops.Add: 1.8,
    ops.Sub: 1.8,
    ops.Mul: 0.9,
    ops.Maximum: 1.0,
    ops.Minimum: 1.0,
    ops.Softmax: 20.0,
    ops.Mean: 1.5,
    ops.Prelu: 17.0,
    ops.Concat: 2.0,
    ops.Pad: 4.0,
}
"""Cycles per element of the result (of the operand for a mean); other ops take _USUAL."""
_USUAL = 1.4
_SCATTERED = 4.0
"""The slowdown factor for moving several images row by row."""
_BILINEAR = 0.7
"""Cycles per element of the result and per interpolated pixel."""
_EACH_TAP = 0.26
"""Cycles per element of a pool's windows."""
_LONG_STRIDE = 3
_SPLIT = 1.02
"""Cycles per multiply-accumulate of ops that Vela splits into many small operations: strides above 3, matrix
products."""
_MULTIPLIED = 0.45
"""Cycles per multiply-accumulate of a depthwise convolution with a channel multiplier."""


def estimate(op: Op, accelerator: Accelerator) -> int:
    """Returns the estimated cycles of one op."""
    if isinstance(op, ops.Reshape):
        return 0
    wide = _MEASURED_MACS / accelerator.macs
    read = sum(v.type.size_bytes for v in op.operands if v.is_constant) / FLASH_BYTES_PER_CYCLE
    return _SETUP + int(max(_compute_cycles(op, accelerator) * wide, read))  # both at the same time


def _compute_cycles(op: Op, accelerator: Accelerator) -> float:
    """Returns the cycles on an NPU of 128 multiply-accumulates."""
    result = op.results[0].type.elements
    match op:
        case ops.Conv2d() if max(op.stride) > _LONG_STRIDE:
            return _SPLIT * op.macs
        case ops.Conv2d() | ops.TransposeConv2d():
            channels = _groups_of_eight(op.results[0].shape[-1]) * _groups_of_eight(op.x.shape[-1])
            pixels = max(result // op.results[0].shape[-1], 1)
            return 1.3 * pixels * math.prod(op.kernel) * channels / _MEASURED_MACS
        case ops.DepthwiseConv2d():
            each = 0.1 if op.depth_multiplier == 1 else _MULTIPLIED
            return each * result // op.y.shape[-1] * _groups_of_eight(op.y.shape[-1]) * math.prod(op.kernel)
        case ops.Linear():
            return op.macs / 8
        case ops.BatchMatmul():
            return _SPLIT * op.macs
        case ops.AvgPool2d() | ops.MaxPool2d():
            return _EACH_TAP * result * math.prod(op.kernel)
        case ops.Mean():
            return _EACH[ops.Mean] * op.x.type.elements
        case ops.ResizeBilinear():
            return _BILINEAR * result * result / max(op.x.type.elements, 1)
        case ops.Softmax():
            return _SOFTMAX_SETUP + _EACH[ops.Softmax] * result
        case _:
            images = image_of(op.results[0].shape)[0] > 1 and isinstance(op, (ops.Concat, ops.Pad))
            return _EACH.get(type(op), _USUAL) * result * (_SCATTERED if images else 1.0)


def _groups_of_eight(channels: int) -> int:
    return -(-channels // 8) * 8
