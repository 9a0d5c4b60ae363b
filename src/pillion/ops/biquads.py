# SPDX-License-Identifier: Apache-2.0
"""Cascades of biquads on 16-bit signals. Signals between sections have 32 bits, and what rounding takes off comes back:
a filter neither drifts nor rings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.access import Access, identity_access
from pillion.ir.numerics import Arithmetic, Int64Array
from pillion.ir.op import Op, Quantization, op, operand, require_dtype, require_rank, result
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value
from pillion.ops.example_values import make_op
from pillion.ops.fixed16 import saturate16

Reals = NDArray[np.float64]

COEFFICIENTS = 5
"""Coefficients of a section, b0, b1, b2, a1 and a2: (b0 + b1/z + b2/z²) / (1 + a1/z + a2/z²)."""
MOST_SECTIONS = 8
MOST_RADIUS = 0.9999
"""The largest radius of a pole."""
MOST_FRACTION = 16
"""The maximum number of fraction bits of a signal between sections."""
LEAST_FRACTION = 4
LEAST_NUMERATOR = 2.0**-18
"""The least of a section's largest numerators; rounding would distort smaller ones."""
PLACES = 28
"""Fraction bits of the coefficients."""
MOST_SUM = 8.0
"""The largest sum of the magnitudes of a section's coefficients: sums of products are below 2^62."""
MARGIN = 1 + 2.0**-10
"""The factor by which rounding raises the largest value of a signal, at most."""
SETTLED = 1e-7
"""An impulse response ends where its poles have decayed to this."""


def state_rows(sections: int) -> int:
    """Returns the number of integers in a signal's state, each in an upper and a lower 16 bits: the last two values
    before, between and behind the sections, then the last two remainders of each section."""
    return 4 * (sections + 1) + 4 * sections


def pole_radius(a1: float, a2: float) -> float:
    """Returns the largest radius of the poles of 1 / (1 + a1/z + a2/z²)."""
    return float(np.abs(np.roots([1.0, a1, a2])).max(initial=0.0))


@cache
def largest_gain(coefficients: tuple[float, ...]) -> float:
    """Returns the largest sum of magnitudes of the impulse responses behind each section, and 1."""
    rows = np.reshape(coefficients, (-1, COEFFICIENTS))
    radius = max(pole_radius(*row[3:]) for row in rows)
    length = 64 if radius < 0.5 else math.ceil(len(rows) * math.log(SETTLED) / math.log(radius))
    signal, gain = [1.0] + [0.0] * length, 1.0
    for b0, b1, b2, a1, a2 in rows.tolist():
        x1 = x2 = y1 = y2 = 0.0
        for at, x in enumerate(signal):
            y = b0 * x + b1 * x1 + b2 * x2 - a1 * y1 - a2 * y2
            x1, x2, y1, y2 = x, x1, y, y1
            signal[at] = y
        gain = max(gain, math.fsum(map(abs, signal)))
    return gain


@op("biquads", quantization=Quantization.SHARED)
class Biquads(Op):
    """Filters signals with a cascade of second-order sections, each b0, b1, b2, a1, a2, and appends the new state to
    each filtered signal.

    Operands are int16 signals [signals, samples] and their states [signals, 8 * sections + 4]. Signals between
    sections have 32 bits, with as many fraction bits as the largest possible signal leaves; products have 64.
    Remainders of the last two samples are added again, times whole numbers near the poles' coefficients."""

    takes_int16 = True
    is_identity = False

    x: Value = operand()
    past: Value = operand()
    y: Value = result()
    coefficients: tuple[float, ...]

    @property
    def sections(self) -> int:
        """The number of sections."""
        return len(self.coefficients) // COEFFICIENTS

    @property
    def _rows(self) -> Reals:
        return np.reshape(np.array(self.coefficients, np.float64), (-1, COEFFICIENTS))

    @property
    def fraction(self) -> int:
        """Fraction bits of the signals between sections: none exceeds 32 bits, whatever the samples are."""
        reach = largest_gain(self.coefficients) * MARGIN
        return min(MOST_FRACTION, math.floor(16 - math.log2(reach)))

    @property
    def levels(self) -> Int64Array:
        """The integers b0, b1, b2, -a1, -a2 of each section."""
        return np.rint(self._rows * (1, 1, 1, -1, -1) * 2.0**PLACES).astype(np.int64)

    @property
    def feedback(self) -> Int64Array:
        """The factors of each section's last two remainders."""
        return np.rint(-self._rows[:, 3:]).astype(np.int64)

    @property
    def macs(self) -> int:
        return self.x.type.elements * 5 * self.sections

    def access(self, operand: Value) -> Access:
        return identity_access(operand, {1}, "a sample depends on all before it")

    def infer(self) -> TensorType:
        signals, samples = self.x.shape
        return TensorType((signals, samples + state_rows(self.sections)), self.x.dtype)

    def check(self) -> None:
        require_rank(self, self.x, 2)
        count = len(self.coefficients)
        if count % COEFFICIENTS or not 1 <= self.sections <= MOST_SECTIONS:
            rule = f"there are 1 to {MOST_SECTIONS} sections of {COEFFICIENTS} coefficients"
            raise self.refuse(rule, f"{count} coefficients")
        wanted = (self.x.shape[0], state_rows(self.sections))
        if self.past.shape != wanted:
            raise self.refuse(f"the state is {list(wanted)}", repr(self.past))
        self._check_coefficients()
        if self.fraction < LEAST_FRACTION:
            rule = f"no signal between sections is above {2 ** (16 - LEAST_FRACTION)} times the input"
            raise self.refuse(rule, f"up to {largest_gain(self.coefficients):.4g} times")
        if self.x.dtype is not DType.FLOAT32:
            for v in (self.x, self.past, self.y):
                require_dtype(self, v, DType.INT16)
                if v.zero_point or v.scale != self.x.scale:
                    raise self.refuse("signals and state share a scale and have zero point 0", repr(v))

    def _check_coefficients(self) -> None:
        for row in self._rows:
            if not 0 < np.abs(row).sum() <= MOST_SUM:
                rule = f"the magnitudes of a section's coefficients sum to {MOST_SUM:g} at most, and are not all 0"
                raise self.refuse(rule, row.tolist())
            radius = pole_radius(*row[3:])
            if radius > MOST_RADIUS:
                rule = f"poles have a radius of at most {MOST_RADIUS}"
                help = "a higher cut-off frequency, or a lower rate of samples"
                raise self.refuse(rule, f"a section with a pole of radius {radius:.6g}", help)
            if 0 < np.abs(row[:3]).max() < LEAST_NUMERATOR:
                rule = f"the largest of b0, b1 and b2 is at least {LEAST_NUMERATOR:.2g}"
                help = "a higher cut-off frequency, or a lower rate of samples"
                raise self.refuse(rule, row[:3].tolist(), help)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        x, past = (operand.astype(np.int64) for operand in operands)
        words = (past[:, ::2] << 16) + (past[:, 1::2] & 0xFFFF)
        last = list(words[:, : 2 * self.sections + 2].T.reshape(-1, 2, len(x)))
        remainders = list(words[:, 2 * self.sections + 2 :].T.reshape(-1, 2, len(x)))
        y = np.empty_like(x)
        half = 1 << self.fraction >> 1
        constants = list(zip(self.levels.tolist(), self.feedback.tolist(), strict=True))
        for at in range(x.shape[1]):
            signal = x[:, at] << self.fraction
            for k, ((b0, b1, b2, c1, c2), (r1, r2)) in enumerate(constants):
                (x1, x2), (y1, y2), (e1, e2) = last[k], last[k + 1], remainders[k]
                total = b0 * signal + b1 * x1 + b2 * x2 + c1 * y1 + c2 * y2 + r1 * e1 + r2 * e2
                last[k] = np.stack([signal, x1])
                signal = numerics.wrap_to_32_bits(total >> PLACES)
                remainders[k] = np.stack([total & ((1 << PLACES) - 1), e1])
            last[-1] = np.stack([signal, last[-1][0]])
            y[:, at] = saturate16((signal + half) >> self.fraction)
        state = np.concatenate([*last, *remainders]).T
        halves = np.stack([state >> 16, ((state & 0xFFFF) ^ 0x8000) - 0x8000], axis=-1)
        return np.concatenate([y, halves.reshape(len(x), -1)], axis=1).astype(np.int16)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        low_pass = (0.0675, 0.1349, 0.0675, -1.143, 0.4128)
        high_pass = (0.99, -0.99, 0.0, -0.98, 0.0)
        slow = (2.4e-6, 4.8e-6, 2.4e-6, -1.9956, 0.9956096)
        ringing = (0.5, 0.0, -0.5, 1.2, 0.998)
        cases = (((3, 7), low_pass), ((1, 33), high_pass + low_pass), ((2, 5), slow + ringing))
        for shape, coefficients in (
            *cases,
            ((1, 1), ringing + high_pass + low_pass),
            ((5, 2), (-1.5, 0.25, 1.0, 0.0, 0.0)),
        ):
            quant = PerTensor(2.0**-15)
            past = (shape[0], state_rows(len(coefficients) // COEFFICIENTS))
            yield make_op(
                cls,
                Value("y", TensorType((), DType.INT16, quant)),
                x=Value("x", TensorType(shape, DType.INT16, quant)),
                past=Value("past", TensorType(past, DType.INT16, quant)),
                coefficients=coefficients,
            )
