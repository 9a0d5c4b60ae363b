# SPDX-License-Identifier: Apache-2.0
"""The Helium kernel of bilinear resizing in float32."""

from __future__ import annotations

from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_conditions import check_all_int8, within
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.portable.resize import float_params, is_tile, routine
from pillion.ops.resize import ResizeBilinearFloat

LEAST_CHANNELS = 2
"""For one channel, portable C takes fewer instructions."""


KERNELS: tuple[Kernel, ...] = (
    MVE.kernel(
        ResizeBilinearFloat,
        routine,
        float_params,
        requires=(check_all_int8, lambda op: within("channels", op.x.shape[-1], LEAST_CHANNELS)),
        counts_rows=is_tile,
    ),
)
