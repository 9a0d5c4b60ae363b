# SPDX-License-Identifier: Apache-2.0
"""Power and magnitude of spectra, and their logarithms: a function of the sum of two squares.

Squares of int8 numbers reach over 48 dB and more, of which int8 holds the upper 24, while a logarithm asks for all of them. So there is no
tensor of squares: the sum has 32 bits, and where it lies among 255 thresholds is the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic, Int64Array
from pillion.ir.op import Op, op, operand, result, want_dtype
from pillion.ir.rows import Span
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value, constant
from pillion.ops.rowwise import RowWise
from pillion.ops.samples import ZERO_POINTS, make, value

Reals = NDArray[np.float64]

THRESHOLDS = 255
"""One less than there are numbers of int8."""
FURTHEST = 255
"""How far an element may be from what stands for 0."""
LARGEST_FACTOR = numerics.INT32_MAX // (2 * FURTHEST**2)
"""By which the square of the operand in coarser steps is multiplied: the sum of both stays in 32 bits."""
NEVER = float(np.finfo(np.float32).max)
"""A threshold beyond which no sum lies."""


@op("magnitude")
class Magnitude(RowWise):
    """Gives a function of a² + b² that never falls, or never rises: the power or the magnitude of a complex number, or the logarithm of either.

    The function is its thresholds, real numbers in ascending order, one for each number of int8 but one: the result is `first` plus the count of those
    that a² + b² is beyond, or less that count if the function `falls`. Squares are multiplied by integers in the ratio of the squares of
    the scales, up to 16,512, their sum has 32 bits, and thresholds are rounded down to its steps."""

    real_constants: ClassVar[tuple[str, ...]] = ("thresholds",)
    is_idle = False

    a: Value = operand()
    b: Value = operand()
    thresholds: Value = operand()
    y: Value = result()
    first: int = -128
    falls: bool = False

    @property
    def factors(self) -> tuple[int, int]:
        """What the square of each operand is multiplied by."""
        coarser = max(self.a.scale, self.b.scale)
        first, second = (max(round(LARGEST_FACTOR * (v.scale / coarser) ** 2), 1) for v in (self.a, self.b))
        return first, second

    @property
    def step(self) -> float:
        """What a unit of the sum means."""
        return max(self.a.scale, self.b.scale) ** 2 / LARGEST_FACTOR

    @property
    def levels(self) -> Int64Array:
        """The thresholds in units of the sum."""
        reals = self.thresholds.constant.astype(np.float64)
        return np.clip(np.floor(reals / self.step), -1, numerics.INT32_MAX).astype(np.int64)

    def rows_of(self, operand: Value, span: Span) -> Span | None:
        return None if operand is self.thresholds else span

    def infer(self) -> TensorType:
        return TensorType(self.a.shape, self.a.dtype)

    def check(self) -> None:
        if self.a.shape != self.b.shape:
            raise self.refuse("shapes are equal", f"{list(self.a.shape)} and {list(self.b.shape)}")
        if self.a.dtype is not self.b.dtype:
            raise self.refuse("both operands have one type", f"{self.a.dtype.value} and {self.b.dtype.value}")
        held = self.thresholds
        want_dtype(self, held, DType.FLOAT32)
        if not held.is_constant or held.shape != (THRESHOLDS,):
            raise self.refuse(f"there are {THRESHOLDS} constant thresholds", repr(held))
        if not bool((np.diff(held.constant) >= 0).all()):
            raise self.refuse("thresholds ascend", repr(held))
        if not -128 <= self.first <= 127:
            raise self.refuse("`first` is a number of int8", self.first)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return self.of_sums(self.sums(*operands[:2]))

    def sums(self, a: Array, b: Array) -> Int64Array:
        """Gives the sum of both squares."""
        total: Int64Array = sum(
            (x.astype(np.int64) - v.zero_point) ** 2 * factor
            for x, v, factor in zip((a, b), (self.a, self.b), self.factors, strict=True)
        )  # type: ignore[assignment]  # of two
        return total

    def of_sums(self, sums: Int64Array) -> Array:
        """Gives the function of sums of squares."""
        passed = np.searchsorted(self.levels, sums, side="left")
        return numerics.saturate(self.first + (-passed if self.falls else passed), -128, 127)

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
            held, first, falls = tabulate(function, quant)
            y = value("y", (), quant.scale, quant.zero_point)
            yield make(cls, y, a=a, b=b, thresholds=constant("thresholds", held), first=first, falls=falls)


def tabulate(function: Callable[[Reals], Reals], quant: PerTensor) -> tuple[NDArray[np.float32], int, bool]:
    """Gives the thresholds of a function of numbers from 0 on, the result at 0, and whether the function falls."""

    def level(x: Reals) -> Reals:
        with np.errstate(all="ignore"):
            levels = numerics.round_half_away(np.asarray(function(x)) / quant.scale + quant.zero_point)
        return np.clip(np.nan_to_num(levels, nan=-128, posinf=127, neginf=-128), -128, 127)

    first, last = (int(n) for n in level(np.array([0.0, NEVER])))
    falls = last < first
    wanted = first + np.arange(1, THRESHOLDS + 1) * (-1 if falls else 1)
    # Positive numbers of 64 bits ascend as their bits do: the last one before each level is found bit by bit.
    below = np.zeros(THRESHOLDS, np.int64)
    for bit in reversed(range(63)):
        tried = below | np.int64(1 << bit)
        reals = tried.view(np.float64)
        is_before = np.isfinite(reals) & (reals <= NEVER)
        there = level(np.where(is_before, reals, 0.0))
        below = np.where(is_before & (there > wanted if falls else there < wanted), tried, below)
    return below.view(np.float64).astype(np.float32), first, falls
