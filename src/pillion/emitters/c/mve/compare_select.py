# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of argmax and argmin."""

from __future__ import annotations

from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_conditions import INT8_X, within
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.portable.compare_select import axis_sizes
from pillion.ops.compare_select import ArgMax, ArgMin

LEAST_RESULTS = 2
MOST_SIZE = 8192
"""The longest row of which the offsets of eight elements fit 16 bits."""

KERNELS: tuple[Kernel, ...] = tuple(
    MVE.kernel(
        op,
        f"{op.kind}_s8",
        axis_sizes,
        requires=(
            INT8_X,
            lambda op: within("results", op.y.type.elements, LEAST_RESULTS),
            lambda op: within("size", op.x.shape[op.axis], most=MOST_SIZE),
        ),
    )
    for op in (ArgMax, ArgMin)
)
