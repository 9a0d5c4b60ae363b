# SPDX-License-Identifier: Apache-2.0
"""The kernel: which C function computes the op, and with which parameters."""

from __future__ import annotations

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel import Params
from pillion.emitters.c.kernel_conditions import check_all_int8
from pillion.emitters.c.kernel_library import Library
from pillion_median.op import Median3

LIBRARY = Library(Isa.PORTABLE, "median.h")


def params(op: Median3) -> Params:
    """Returns the parameters of a median filter."""
    length = op.x.shape[-1]
    return {"rows": op.x.type.elements // length, "length": length}


MEDIAN3 = LIBRARY.kernel(Median3, "median3_s8", params, requires=(check_all_int8,))
