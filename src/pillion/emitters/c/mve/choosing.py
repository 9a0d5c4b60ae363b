# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels that say where an extreme stands."""

from __future__ import annotations

from pillion.emitters.c.kernel import Call, Kernel
from pillion.emitters.c.library import MVE
from pillion.emitters.c.portable.choosing import around, judge_places
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict
from pillion.ops.choosing import ArgMax, ArgMin, Place

LEAST_RESULTS = 2
MOST_SIZE = 8192
"""The most elements of a row, of which eight lie within 16 bits."""


def calls(op: Place, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call that looks for the place of an extreme."""
    return (Call(MVE.routine(f"{op.kind}_s8"), around(op), (op.x,), op.y),)


def takes(op: Place, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether there are results to be found side by side, and whether offsets and places fit 16 bits."""
    results, size = op.y.type.elements, op.x.shape[op.axis]
    several = Verdict("results", results >= LEAST_RESULTS, f"at least {LEAST_RESULTS}", str(results))
    fits = Verdict("size", size <= MOST_SIZE, f"at most {MOST_SIZE}", str(size))
    return (*judge_places(op, arithmetic), several, fits)


KERNELS: tuple[Kernel, ...] = (MVE.row(ArgMax, calls, takes), MVE.row(ArgMin, calls, takes))
