# SPDX-License-Identifier: Apache-2.0
"""The kernels of conversions between 8 and 16 bits by one multiplication of 32 bits or by a shift, with the proof that it is
exact: a conversion is a function of one number, and all numbers are tried."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import Check, has_dtypes, short_circuit
from pillion.emitters.c.kernel_library import DSP, MVE, Library
from pillion.ir.numerics import INT32_MAX, Arithmetic, Int64Array
from pillion.ir.types import DType, TensorType, Value
from pillion.ir.verdict import Verdict
from pillion.ops.formats import Requantize

NEAR = (0, 1, -1, 2, -2, 3, -3, 4, -4, 6, -6, 8, -8)
"""The distances from the ideal multiplier that are tried."""
FRACTION_BITS = 15
"""The bits that the DSP kernels shift away last."""
SEARCHED = 2**40
"""The magnitude of a constant that results leave open."""


@dataclass(frozen=True)
class Conversion:
    """The results of all numbers of a conversion."""

    x: Value
    y: Value
    levels: Int64Array
    expected: Int64Array

    @property
    def ratio(self) -> float:
        """A step of the operand in steps of the result."""
        return self.x.scale / self.y.scale


Formula = Callable[[Conversion], Params | None]


def rounded_product(of: Conversion) -> Params | None:
    """Returns the multiplier with which VQRDMULH computes every result, and the left shift before it if results are
    wider; None if no multiplier does."""
    low, high = DType.INT16.bounds
    narrows = of.y.dtype is DType.INT8
    least = max(0, math.ceil(math.log2(of.ratio)))
    for left in (0,) if narrows else (least, least + 1):
        shifted = of.levels - of.x.zero_point << left
        for multiplier in _multipliers(of.ratio * 2.0 ** (31 - left)):
            made = np.clip(shifted * multiplier + (1 << 30) >> 31, low, high) + of.y.zero_point
            fits = np.abs(shifted).max() <= INT32_MAX
            if fits and np.array_equal(np.clip(made, *of.y.dtype.bounds), of.expected):
                return {"multiplier": multiplier, **({} if narrows else {"left": left})}
    return None


def rounded_shift(of: Conversion) -> Params | None:
    """Returns the factor with which VQRDMLASH makes every result by a shift to the right; None if there is none."""
    shift = -round(math.log2(of.ratio))
    if not 0 < shift < 16:
        return None
    shifted = (of.levels + (1 << shift - 1) >> shift) + of.y.zero_point
    if not np.array_equal(np.clip(shifted, *of.y.dtype.bounds), of.expected):
        return None
    return {"factor": 1 << 15 - shift, "out_zp": of.y.zero_point}


def product_and_constant(of: Conversion) -> Params | None:
    """Returns the multiplier and the constant with which SMLAW and a shift compute every result; None if none do.
    Bytes are multiplied as the upper halves of halfwords."""
    above = 16 - 8 * of.x.dtype.size_bytes
    low, high = of.y.dtype.bounds
    for multiplier in _multipliers(of.ratio * 2.0 ** (16 + FRACTION_BITS - above)):
        products = multiplier * (of.levels << above) >> 16
        room = (of.expected << FRACTION_BITS) - products
        least = int(room[of.expected > low].max(initial=-SEARCHED))
        most = int(room[of.expected < high].min(initial=SEARCHED)) + (1 << FRACTION_BITS) - 1
        constant = (least + most) // 2
        if least <= most and np.abs(products + constant).max() <= INT32_MAX:
            return {"multiplier": multiplier, "constant": constant}
    return None


def _multipliers(ideal: float) -> Iterator[int]:
    """Yields integers near the ideal multiplier that have 31 bits."""
    return (m for m in (round(ideal) + distance for distance in NEAR) if 0 < m <= INT32_MAX)


@lru_cache(maxsize=256)
def _found(formula: Formula, x: TensorType, y: TensorType, arithmetic: Arithmetic) -> Params | None:
    """Returns the numbers of a formula for a conversion between two types of a vector with all numbers."""
    levels = np.arange(x.dtype.bounds[0], x.dtype.bounds[1] + 1)
    op = Requantize(x=Value("x", x), y=Value("y", y), to=y.dtype)
    expected = op.reference(arithmetic, levels.astype(x.dtype.numpy)).astype(np.int64)
    return formula(Conversion(op.x, op.y, levels.astype(np.int64), expected))


def numbers_of(formula: Formula, op: Requantize, arithmetic: Arithmetic) -> Params | None:
    """Returns the numbers of a formula for an op; None if it is not exact."""
    low, high = op.x.dtype.bounds
    types = (replace(value.type, shape=(high - low + 1,)) for value in (op.x, op.y))
    return _found(formula, *types, arithmetic)


def is_exact(formula: Formula) -> Check[Requantize]:
    """Returns the condition that a formula makes the result of every number."""

    def check(op: Requantize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
        exists = numbers_of(formula, op, arithmetic) is not None
        return (Verdict("formula", exists, "right for all numbers", "found" if exists else "none found"),)

    return check


def wide_zero_point(op: Requantize) -> Verdict:
    """Checks whether the 16-bit tensor has the zero point 0."""
    wide = op.x if op.x.dtype is DType.INT16 else op.y
    return Verdict("zero_point", wide.zero_point == 0, "0 in 16 bits", str(wide.zero_point))


def kernel(library: Library, formula: Formula, x: DType, y: DType, form: str = "") -> Kernel:
    """Returns the kernel of a formula from one type to another."""

    def params(op: Requantize, arithmetic: Arithmetic) -> Params:
        return numbers_of(formula, op, arithmetic) or {}

    return library.kernel(
        Requantize,
        f"requantize{form}_s{8 * x.size_bytes}_s{8 * y.size_bytes}",
        params,
        requires=(short_circuit(has_dtypes("x", x), has_dtypes("y", y), wide_zero_point, is_exact(formula)),),
    )


KERNELS = (
    kernel(MVE, rounded_shift, DType.INT16, DType.INT8, "_shift"),
    *(
        kernel(library, formula, *types)
        for library, formula in ((MVE, rounded_product), (DSP, product_and_constant))
        for types in ((DType.INT8, DType.INT16), (DType.INT16, DType.INT8))
    ),
)
