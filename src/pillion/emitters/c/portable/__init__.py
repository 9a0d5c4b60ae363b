# SPDX-License-Identifier: Apache-2.0
"""The portable kernels: plain C99 for every processor, and for every op. All other lists of kernels fall back on these."""

from __future__ import annotations

from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.portable import (
    choosing,
    conv,
    detections,
    div,
    elementwise,
    magnitude,
    matmul,
    movement,
    pool,
    prelu,
    recurrent,
    reduce,
    resize,
    standardize,
    transpose_conv,
)

FAMILIES = (
    *(conv, elementwise, pool, movement, transpose_conv, matmul, div, prelu, reduce, resize, choosing),
    *(standardize, magnitude, recurrent, detections),
)

KERNELS: tuple[Kernel, ...] = tuple(kernel for family in FAMILIES for kernel in family.KERNELS)
