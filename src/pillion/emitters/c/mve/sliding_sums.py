# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of means and average pools over a sliding window."""

from __future__ import annotations

import numpy as np

from pillion.emitters.c.accumulators import Int32Array
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.mve.elementwise import OVERREAD_BYTES
from pillion.emitters.c.mve.reduce import BLOCK, LANES
from pillion.emitters.c.portable.sliding_sums import POOL, POOLS
from pillion.emitters.c.reduction_blocks import MEANS
from pillion.emitters.c.sliding_sums import WindowKernel, reset_sums_without_zero_points


def pack_sums_in_vectors(sums: Int32Array) -> Int32Array:
    """Returns sums in complete vectors, the even ones of each eight first."""
    filled = np.pad(sums, (0, -len(sums) % LANES), mode="edge").reshape(-1, LANES // 4, 2)
    return np.ascontiguousarray(filled.transpose(0, 2, 1).reshape(-1), np.int32)


MOST_PIXELS = 4096
"""The largest window for which the reciprocal was verified for all sums."""

WINDOWS: tuple[WindowKernel, ...] = (
    WindowKernel(
        "window_mean_mve",
        MEANS,
        MVE.routine("window_mean_s8"),
        BLOCK,
        stored=lambda sums: pack_sums_in_vectors(reset_sums_without_zero_points(sums)),
        overread_bytes=OVERREAD_BYTES,
    ),
    WindowKernel(
        "window_pool_mve",
        POOLS,
        MVE.routine("window_pool_s8"),
        POOL,
        lambda sums: sums.window <= MOST_PIXELS,
        stored=lambda sums: pack_sums_in_vectors(sums.initial),
        overread_bytes=OVERREAD_BYTES,
    ),
)
