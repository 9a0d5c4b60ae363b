# SPDX-License-Identifier: Apache-2.0
"""Programs hold multipliers where graphs hold scales. A multiplier has 31 bits and is a quotient of scales of 24 bits
each, so the scales can be found again: all multipliers of an op together leave few candidates, and one that gives exactly
these multipliers is as good as the one that the program was made from (at most a power of two apart)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pillion.ir.numerics import Multiplier, encode
from pillion.schemas.flatbuffer import MalformedError

Reals = NDArray[np.float64]

_MANTISSAS = 1 << 23
"""How many 24-bit numbers there are between 1 and 2."""
_CHUNK = 1 << 16
MOST_CHUNKS = 40_000
"""The most work for one file, which is half a minute. A layer takes at most 128, most of them fewer."""
MOST_CANDIDATES = 2048
"""The most numbers that are tried for the scales of one op."""
_NEAR = 2.0**-29
"""How far a quotient of two multipliers may lie from that of the real numbers behind them, with some room."""
_TYPICAL_ACTIVATION = 2.0**-5
_ZERO = 2.0**-60
"""Stands for a multiplier of 0: small enough to be encoded as one, beside any scale of the other tensors."""


class Search:
    """Looks through all 24-bit numbers, and stops where a file asks for that too often."""

    def __init__(self) -> None:
        self.left = MOST_CHUNKS

    def candidates(self, times: Sequence[float], over: Sequence[float] = ()) -> Iterator[float]:
        """Finds numbers between 1 and 2 whose products with `times`, and quotients of `over` by them, come near to 24-bit numbers."""
        for begin in range(0, _MANTISSAS, _CHUNK):
            self.left -= 1
            if self.left < 0:
                raise MalformedError("the scales behind its multipliers take too long to find")
            alive = 1 + np.arange(begin, begin + _CHUNK) / _MANTISSAS
            for factor in times:
                alive = alive[_is_near(alive * factor)]
            for dividend in over:
                alive = alive[_is_near(dividend / alive)]
            yield from alive.tolist()


@dataclass(frozen=True)
class Fit:
    """Scales for which x · w / y is what is wanted."""

    x: float
    w: Reals
    y: float


class Ratios:
    """Multipliers as the program holds them."""

    def __init__(self, mantissas: ArrayLike, shifts: ArrayLike) -> None:
        self.mantissas, self.shifts = (np.atleast_1d(np.asarray(a, np.int64)) for a in (mantissas, shifts))
        places = np.clip(self.shifts, -64, 64).astype(np.int32) - 31
        self.real: Reals = np.ldexp(self.mantissas.astype(np.float64), places)

    @property
    def are_normal(self) -> bool:
        """Whether scales could have been encoded like this."""
        normal = (self.mantissas >= 2**30) & (self.mantissas < 2**31) & (abs(self.shifts + 0.5) < 31)
        return bool(np.all(normal | ((self.mantissas == 0) & (self.shifts == 0))))

    def exact(self, x: float, y: float) -> Fit | None:
        """Gives the scales w that go with these x and y, if there are any."""
        x, y = rounded(x), rounded(y)
        w = (np.where(self.real > 0, self.real, _ZERO) * y / x).astype(np.float32).astype(np.float64)
        fraction, shift = np.frexp(x * w / y)
        mantissa = np.floor(fraction * 2.0**31 + 0.5).astype(np.int64)
        overflown = mantissa == 2**31
        mantissa, shift = np.where(overflown, 2**30, mantissa), shift + overflown
        same = (mantissa == self.mantissas) & (shift == self.shifts)
        fits = np.where(self.real > 0, same, shift < -31)
        return Fit(x, w, y) if np.all(fits) and np.all(w > 0) and np.all(np.isfinite(w)) else None

    def fit(self, x: float | None, y: float | None, search: Search) -> Fit | None:
        """Finds scales for these multipliers; x and y are given where they are known."""
        if x is not None and y is not None:
            return self.exact(x, y)
        real = np.unique(self.real[self.real > 0])
        if not real.size:
            return self.exact(x or _TYPICAL_ACTIVATION, y or _TYPICAL_ACTIVATION)
        first = float(real[0])
        times, over = (real[1:] / first).tolist(), []
        if x is not None:
            times.insert(0, x / first)
        if y is not None:
            over.append(first * y)
        for w in islice(search.candidates(times, over), MOST_CANDIDATES):
            found = self.with_first(first, w, x, y)
            if found:
                return found
        return None

    def with_first(self, first: float, w: float, x: float | None, y: float | None) -> Fit | None:
        """Finds scales, where w belongs to the multiplier `first`."""
        if x is not None:
            return self.exact(x, typical(x * w / first))
        if y is not None:
            return self.exact(typical(first * y / w), y)
        low, high = self.bounds(first / w)
        return next((found for pair in quotients(low, high) if (found := self.exact(*pair))), None)

    def bounds(self, quotient: float) -> tuple[float, float]:
        """Gives the bounds between which x / y must lie, near a quotient, for all w to have 24 bits."""
        real, mantissas = self.real[self.real > 0], self.mantissas[self.real > 0]
        exact = real / (real / quotient).astype(np.float32).astype(np.float64)
        low, high = ((exact * (1 + sign * 0.5 / mantissas)) for sign in (-1, 1))
        return float(low.max()), float(high.min())


def quotients(low: float, high: float) -> Iterator[tuple[float, float]]:
    """Finds pairs of 24-bit numbers whose quotients lie in a narrow interval."""
    for begin in range(0, _MANTISSAS if low <= high else 0, _CHUNK):
        y = _TYPICAL_ACTIVATION * (1 + np.arange(begin, begin + _CHUNK) / _MANTISSAS)
        x = (y * (low + high) / 2).astype(np.float32).astype(np.float64)
        for found in np.flatnonzero((low <= x / y) & (x / y <= high)).tolist():
            yield float(x[found]), float(y[found])


def _is_near(x: Reals) -> NDArray[np.bool_]:
    return np.abs(x - x.astype(np.float32)) <= _NEAR * x


def typical(scale: float) -> float:
    """Gives a scale times a power of two, as large as the scales of activations are."""
    return math.ldexp(math.frexp(scale)[0], -4)


def rounded(x: float) -> float:
    """Rounds a number to float32."""
    return float(np.float32(x))


@dataclass(frozen=True)
class SumFit:
    """The scales of a sum that was solved: of both operands and of the result."""

    a: float
    b: float
    y: float


@dataclass(frozen=True)
class SumRatios:
    """The multipliers of both operands, of which the larger one's is one half, and of the result."""

    a: Multiplier
    b: Multiplier
    y: Multiplier

    HALF = Multiplier(2**30, 0)

    @property
    def are_normal(self) -> bool:
        """Whether the multipliers are such as scales can make."""
        return self.HALF in (self.a, self.b) and min(self.a.mantissa, self.b.mantissa, self.y.mantissa) > 0

    def from_larger(self, larger: float) -> SumFit | None:
        """Gives the scales that follow from that of the operand with one half."""
        larger = rounded(larger)
        a, b = (rounded(2 * larger * real(m)) for m in (self.a, self.b))
        y = rounded(2 * larger / (2.0**20 * real(self.y)))
        if not all(0 < scale < np.inf for scale in (a, b, y)):
            return None
        common = 2 * max(a, b)
        try:
            made = (encode(a / common), encode(b / common), encode(common / (2**20 * y)))
        except ValueError:
            return None
        return SumFit(a, b, y) if made == (self.a, self.b, self.y) else None

    def fit(self, a: float | None, b: float | None, y: float | None) -> SumFit | None:
        """Finds the scales from any one of them."""
        known = [scale / (2 * real(m)) for scale, m in ((a, self.a), (b, self.b)) if scale is not None]
        known += [] if y is None else [y * 2.0**19 * real(self.y)]
        return next((found for larger in known if (found := self.from_larger(larger))), None)

    def any(self, search: Search) -> SumFit | None:
        """Finds some scales where none is known; none if there are no such scales."""
        times = [2 * real(m) for m in (self.a, self.b) if m != self.HALF]
        for w in islice(search.candidates([*times, 2 / (2.0**20 * real(self.y))]), MOST_CANDIDATES):
            found = self.from_larger(w * _TYPICAL_ACTIVATION)
            if found:
                return found
        return None


def real(m: Multiplier) -> float:
    """Gives the real number that a multiplier stands for."""
    return float(np.ldexp(float(m.mantissa), m.shift - 31))
