# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ir.types import Array, PerTensor, Value, constant_value
from pillion.ops import Add, Function, Lut, Magnitude, Mul, Requantize

LEAST = -128
"""The integer that stands for 0 in a tensor without negative values."""
EVERY_INT8 = np.arange(-128, 128)
NAMED = (Function.SQRT, Function.LOG)
"""Functions that other runtimes know by name."""


@rewrite_pass(Magnitude, also_in_loops=True)
def compose_magnitudes(op: Magnitude, at: RewriteSweep) -> Replacement:
    """Expands functions of a sum of two squares into two products, a sum and a table, for formats and
    runtimes without such an op.

    Every intermediate result is rounded to 8 bits, so the result is coarser than that of the op."""

    def value_below(most: float, what: str) -> Value:
        """Returns a value between 0 and `most`."""
        quant = PerTensor(most / numerics.INT8_STEPS, LEAST)
        return op.y.like(at.names.fresh(f"{op.name}_{what}"), quant=quant)

    squares = [
        Mul(a=x, b=x, y=value_below(x.scale**2 * x.reach**2, f"{n}_squared"), source=op.source)
        for n, x in (("a", op.a), ("b", op.b))
    ]
    first, second = (square.y for square in squares)
    x = value_below(numerics.INT8_STEPS * (first.scale + second.scale), "sum")
    total = Add(a=first, b=second, y=x, source=op.source)
    sums = np.round((EVERY_INT8 - LEAST) * x.scale / op.step).astype(np.int64)
    expected = op.from_square_sums(sums).astype(np.int8)
    if _is_near(expected, Requantize(x=x, y=op.y).reference(Arithmetic.CMSIS_NN, EVERY_INT8)):
        return [*squares, Add(a=first, b=second, y=op.y, source=op.source)]
    named = (Lut(x=x, table=None, y=op.y, function=function, source=op.source) for function in NAMED)
    table = constant_value(at.names.fresh(f"{op.name}_table"), expected)
    by_name = next((candidate for candidate in named if _is_near(expected, candidate.double_entries())), None)
    return [*squares, total, by_name or Lut(x=x, table=table, y=op.y, source=op.source)]


def _is_near(a: Array, b: Array) -> bool:
    """Whether two functions agree up to rounding."""
    return int(np.abs(a.astype(int) - b).max()) <= 1
