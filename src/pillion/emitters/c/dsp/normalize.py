# SPDX-License-Identifier: Apache-2.0
"""The DSP kernel of norms."""

from __future__ import annotations

from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_conditions import INT8_XY, equals
from pillion.emitters.c.kernel_library import DSP
from pillion.emitters.c.portable.normalize import INT16_TO_INT8, params
from pillion.ops.normalize import Normalize

KERNELS: tuple[Kernel, ...] = (
    DSP.kernel(
        Normalize,
        "normalize_s16",
        params,
        requires=(*INT16_TO_INT8, equals("groups", 1)),
        also=("clamp",),
        name="normalize_wide",
    ),
    DSP.kernel(
        Normalize,
        "normalize_s8",
        params,
        requires=(INT8_XY,),
        scratch_bytes=lambda op: 16 * op.x.shape[-1] if op.groups > 1 else 0,  # four numbers for each channel
        in_place="x",
        also=("clamp",),
    ),
)
