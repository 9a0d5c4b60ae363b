# SPDX-License-Identifier: Apache-2.0
"""The portable kernel of transposed convolutions."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.kernel_conditions import layer_operands
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.emitters.c.portable.conv import image, result_bounds, scaling, window
from pillion.ir.numerics import Arithmetic
from pillion.ops.transpose_conv import TransposeConv2d

SUM_BYTES = 4
"""The size of an accumulator."""


def calls_transpose_conv2d(op: TransposeConv2d, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a transposed convolution."""
    params: Params = {
        **{**image(op), "out_c": op.out_channels, **window(op)},
        **{"in_zp": op.x.zero_point, **result_bounds(op), **scaling(op)},
        "weights": np.ascontiguousarray(op.weights.constant.transpose(1, 2, 0, 3)).reshape(-1),
        "bias": op.bias.constant.astype(np.int32),
    }
    return (Call(PORTABLE.routine("transpose_conv2d_s8"), params, (op.x,), op.y),)


def scratch_bytes(op: TransposeConv2d) -> int:
    """Returns the scratch bytes for the accumulators of one result pixel."""
    return SUM_BYTES * op.out_channels


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(TransposeConv2d, calls_transpose_conv2d, layer_operands, scratch_bytes=scratch_bytes),
)
