# SPDX-License-Identifier: Apache-2.0
"""The portable kernels: plain C99 for every processor and every op. All other instruction sets fall back on them."""

from __future__ import annotations

from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.portable import (
    compare_select,
    conv,
    detections,
    div,
    elementwise,
    magnitude,
    matmul,
    movement,
    normalize,
    pool,
    prelu,
    recurrent,
    reduce,
    resize,
    transpose_conv,
)

FAMILIES = (
    *(conv, elementwise, pool, movement, transpose_conv, matmul, div, prelu, reduce, resize, compare_select),
    *(normalize, magnitude, recurrent, detections),
)

KERNELS: tuple[Kernel, ...] = tuple(kernel for family in FAMILIES for kernel in family.KERNELS)
