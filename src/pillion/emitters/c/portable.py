# SPDX-License-Identifier: Apache-2.0
"""The portable kernels: plain C99 for every processor, and for every op. All other lists of kernels fall back on these."""

from __future__ import annotations

from pillion.emitters.c import (
    portable_conv,
    portable_elementwise,
    portable_more,
    portable_movement,
    portable_pool,
)
from pillion.emitters.c.kernel import Kernel

KERNELS: tuple[Kernel, ...] = (
    *portable_conv.KERNELS,
    *portable_elementwise.KERNELS,
    *portable_pool.KERNELS,
    *portable_movement.KERNELS,
    *portable_more.KERNELS,
)
