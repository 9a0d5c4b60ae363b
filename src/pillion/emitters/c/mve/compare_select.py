# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of argmax and argmin."""

from __future__ import annotations

from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.portable.compare_select import calls_extremum_index, check_int8_operand
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict
from pillion.ops.compare_select import ArgMax, ArgMin, Place

LEAST_RESULTS = 2
MOST_SIZE = 8192
"""The longest row of which the offsets of eight elements fit 16 bits."""


def check(op: Place, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether there are several results, and whether offsets and indices fit 16 bits."""
    results, size = op.y.type.elements, op.x.shape[op.axis]
    several = Verdict("results", results >= LEAST_RESULTS, f"at least {LEAST_RESULTS}", str(results))
    fits = Verdict("size", size <= MOST_SIZE, f"at most {MOST_SIZE}", str(size))
    return (*check_int8_operand(op, arithmetic), several, fits)


KERNELS: tuple[Kernel, ...] = tuple(
    MVE.kernel(op, MVE.port(calls_extremum_index), check) for op in (ArgMax, ArgMin)
)
