# SPDX-License-Identifier: Apache-2.0
"""The portable kernel of transposed convolutions."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import LAYER
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.ops.transpose_conv import TransposeConv2d

SUM_BYTES = 4
"""The size of an accumulator; scratch memory holds the accumulators of one result pixel."""


def params(op: TransposeConv2d) -> Params:
    """Returns the parameters of a transposed convolution."""
    return {
        "weights": np.ascontiguousarray(op.weights.constant.transpose(1, 2, 0, 3)).reshape(-1),
        "bias": op.bias.constant.astype(np.int32),
    }


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(
        TransposeConv2d,
        "transpose_conv2d_s8",
        params,
        requires=(LAYER,),
        scratch_bytes=lambda op: SUM_BYTES * op.out_channels,
    ),
)
