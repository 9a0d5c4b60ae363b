# SPDX-License-Identifier: Apache-2.0
"""The portable kernels: plain C99 for every processor, and for every op. All other lists of kernels fall back on these."""

from __future__ import annotations

from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.portable import (
    conv as portable_conv,
)
from pillion.emitters.c.portable import (
    elementwise as portable_elementwise,
)
from pillion.emitters.c.portable import (
    movement as portable_movement,
)
from pillion.emitters.c.portable import (
    pool as portable_pool,
)
from pillion.emitters.c.portable import (
    reduce as portable_more,
)

KERNELS: tuple[Kernel, ...] = (
    *portable_conv.KERNELS,
    *portable_elementwise.KERNELS,
    *portable_pool.KERNELS,
    *portable_movement.KERNELS,
    *portable_more.KERNELS,
)
