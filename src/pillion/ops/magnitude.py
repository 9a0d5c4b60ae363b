# SPDX-License-Identifier: Apache-2.0
"""Power and magnitude of spectra, and their logarithms: functions of a sum of two squares.

Squares of int8 numbers span 48 dB or more, of which int8 holds the upper 24, while a logarithm needs all of
them. So no tensor holds the squares: the sum has 32 bits, and the result is its position among 255 thresholds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.access import WHOLE, Access
from pillion.ir.numerics import Arithmetic, Int64Array
from pillion.ir.op import Op, op, operand, require_dtype
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value, constant_value
from pillion.ops.example_values import ZERO_POINTS, make_op, value
from pillion.ops.rowwise import RowWise

Reals = NDArray[np.float64]

THRESHOLDS = 255
"""The number of thresholds: one less than int8 has values."""
FURTHEST = 255
"""The largest distance of an element from its zero point."""
LARGEST_FACTOR = numerics.INT32_MAX // (2 * FURTHEST**2)
"""The largest factor of the coarser operand's square: the sum of both stays below 2^31."""
NEVER = float(np.finfo(np.float32).max)
"""A threshold above every sum."""


@op("magnitude")
class Magnitude(RowWise):
    """Computes a monotonic function of a² + b²: the power or magnitude of a complex number, or the logarithm of
    either.

    `thresholds` holds 255 real numbers in ascending order. The result is `first` plus the number of thresholds
    below a² + b², or minus it if the function `falls`. Integer factors up to 16,512 bring the squares to a
    common scale; their sum has 32 bits, and thresholds are rounded down to its unit."""

    real_constants: ClassVar[tuple[str, ...]] = ("thresholds",)
    is_identity = False

    a: Value = operand()
    b: Value = operand()
    thresholds: Value = operand()
    first: int = -128
    falls: bool = False

    @property
    def factors(self) -> tuple[int, int]:
        """The factor of each operand's square."""
        coarser = max(self.a.scale, self.b.scale)
        first, second = (max(round(LARGEST_FACTOR * (v.scale / coarser) ** 2), 1) for v in (self.a, self.b))
        return first, second

    @property
    def step(self) -> float:
        """The real value of one unit of the sum."""
        return max(self.a.scale, self.b.scale) ** 2 / LARGEST_FACTOR

    @property
    def levels(self) -> Int64Array:
        """The thresholds in units of the sum."""
        reals = self.thresholds.constant.astype(np.float64)
        return np.clip(np.floor(reals / self.step), -1, numerics.INT32_MAX).astype(np.int64)

    def access(self, operand: Value) -> Access:
        return WHOLE if operand is self.thresholds else super().access(operand)

    def infer(self) -> TensorType:
        return TensorType(self.a.shape, self.a.dtype)

    def check(self) -> None:
        if self.a.shape != self.b.shape:
            raise self.refuse("shapes are equal", f"{list(self.a.shape)} and {list(self.b.shape)}")
        if self.a.dtype is not self.b.dtype:
            raise self.refuse("both operands have one type", f"{self.a.dtype.value} and {self.b.dtype.value}")
        thresholds = self.thresholds
        require_dtype(self, thresholds, DType.FLOAT32)
        if not thresholds.is_constant or thresholds.shape != (THRESHOLDS,):
            raise self.refuse(f"there are {THRESHOLDS} constant thresholds", repr(thresholds))
        if not bool((np.diff(thresholds.constant) >= 0).all()):
            raise self.refuse("thresholds ascend", repr(thresholds))
        if not -128 <= self.first <= 127:
            raise self.refuse("`first` is a number of int8", self.first)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return self.from_square_sums(self.sums(*operands[:2]))

    def sums(self, a: Array, b: Array) -> Int64Array:
        """Returns the sum of both squares."""
        total: Int64Array = sum(
            (x.astype(np.int64) - v.zero_point) ** 2 * factor
            for x, v, factor in zip((a, b), (self.a, self.b), self.factors, strict=True)
        )  # type: ignore[assignment]  # of two
        return total

    def from_square_sums(self, sums: Int64Array) -> Array:
        """Applies the function to sums of squares."""
        passed = np.searchsorted(self.levels, sums, side="left")
        return numerics.clamp_to_int8(self.first + (-passed if self.falls else passed), -128, 127)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        functions: tuple[tuple[Callable[[Reals], Reals], PerTensor], ...] = (
            (np.sqrt, PerTensor(0.08, -128)),
            (lambda x: np.log(x + 1e-6), PerTensor(0.09, 20)),
            (lambda x: x, PerTensor(2.0, -128)),
            (lambda x: 1 / (x + 0.25), PerTensor(2.0**-6, -128)),
            (np.log10, PerTensor(2.0**-5, 0)),
        )
        shapes = ((2, 3, 5, 7), (1, 17), (3, 8), (2, 1, 33), (11,), (1, 5, 4))
        for number, shape in enumerate(shapes):
            function, quant = functions[number % len(functions)]
            a = value("a", shape, 0.0625, ZERO_POINTS[number % 4])
            b = value("b", shape, 0.0625 * (1.0, 0.7, 1 / 300)[number % 3], ZERO_POINTS[(number + 1) % 4])
            thresholds, first, falls = tabulate_thresholds(function, quant)
            y = value("y", (), quant.scale, quant.zero_point)
            yield make_op(
                cls,
                y,
                a=a,
                b=b,
                thresholds=constant_value("thresholds", thresholds),
                first=first,
                falls=falls,
            )


def tabulate_thresholds(
    function: Callable[[Reals], Reals], quant: PerTensor
) -> tuple[NDArray[np.float32], int, bool]:
    """Returns the thresholds of a function on [0, ∞), its value at 0, and whether it falls."""

    def level(x: Reals) -> Reals:
        with np.errstate(all="ignore"):
            levels = numerics.round_half_away(np.asarray(function(x)) / quant.scale + quant.zero_point)
        return np.clip(np.nan_to_num(levels, nan=-128, posinf=127, neginf=-128), -128, 127)

    first, last = (int(n) for n in level(np.array([0.0, NEVER])))
    falls = last < first
    targets = first + np.arange(1, THRESHOLDS + 1) * (-1 if falls else 1)
    # Positive numbers of 64 bits ascend as their bits do: the last one before each level is found bit by bit.
    below = np.zeros(THRESHOLDS, np.int64)
    for bit in reversed(range(63)):
        tried = below | np.int64(1 << bit)
        reals = tried.view(np.float64)
        is_before = np.isfinite(reals) & (reals <= NEVER)
        there = level(np.where(is_before, reals, 0.0))
        below = np.where(is_before & (there > targets if falls else there < targets), tried, below)
    return below.view(np.float64).astype(np.float32), first, falls
