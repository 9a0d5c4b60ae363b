# SPDX-License-Identifier: Apache-2.0
"""The DSP kernels (Cortex-M4, -M7, -M33): which ops each variant takes, with what constants and how much scratch."""

from __future__ import annotations

from pillion.emitters.c.dsp import (
    conv,
    elementwise,
    linear,
    matmul,
    recurrent,
    reduce,
    standardize,
    transpose_conv,
)
from pillion.emitters.c.kernel import Kernel, Routine

FAMILIES = (conv, linear, transpose_conv, matmul, reduce, elementwise, standardize, recurrent)

KERNELS: tuple[Kernel, ...] = tuple(kernel for family in FAMILIES for kernel in family.KERNELS)
ROUTINES: tuple[Routine, ...] = tuple(routine for family in FAMILIES for routine in family.ROUTINES)
