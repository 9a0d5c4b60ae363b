# SPDX-License-Identifier: Apache-2.0
"""The arithmetic, against plain rational numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillion.ir import numerics
from pillion.ir.numerics import INT32_MAX, INT32_MIN, Arithmetic, Multiplier, scale_ratio

int32 = st.integers(INT32_MIN, INT32_MAX)


def half_up(x: Fraction) -> int:
    return (2 * x + 1).__floor__() // 2


def half_away(x: Fraction) -> int:
    return half_up(abs(x)) * (1 if x >= 0 else -1)


@given(int32, st.integers(2**30, 2**31 - 1), st.integers(-31, 0))
def test_requantize_rounds_half_up_then_half_away(value: int, mantissa: int, shift: int) -> None:
    high = half_up(Fraction(value * mantissa, 2**31))
    assert numerics.requantize(value, mantissa, shift) == half_away(Fraction(high, 2**-shift))


@given(int32, st.integers(2**30, 2**31 - 1), st.integers(1, 30))
def test_a_left_shift_wraps(value: int, mantissa: int, shift: int) -> None:
    wrapped = (value * 2**shift + 2**31) % 2**32 - 2**31
    assert numerics.requantize(value, mantissa, shift) == half_up(Fraction(wrapped * mantissa, 2**31))


@given(st.floats(2.0**-31, 2.0**29))
def test_encode_is_the_nearest_fixed_point_number(real: float) -> None:
    encoded = numerics.encode_multiplier(real)
    assert 2**30 <= encoded.mantissa < 2**31
    error = abs(Fraction(encoded.mantissa) * Fraction(2) ** encoded.shift / 2**31 - Fraction(real))
    assert error <= Fraction(2) ** (encoded.shift - 32)


@pytest.mark.parametrize(
    ("real", "wanted"),
    [
        (0.0, Multiplier(0, 0)),
        (1.0, Multiplier(2**30, 1)),
        (0.5, Multiplier(2**30, 0)),
        (1 - 2.0**-33, Multiplier(2**30, 1)),
        (2.0**-40, Multiplier(0, 0)),
    ],
)
def test_encode_at_the_edges(real: float, wanted: Multiplier) -> None:
    assert numerics.encode_multiplier(real) == wanted


@pytest.mark.parametrize("real", [-1.0, float("inf"), float("nan"), 2.0**40])
def test_encode_refuses_nonsense(real: float) -> None:
    with pytest.raises(ValueError, match="scale ratio"):
        numerics.encode_multiplier(real)


@given(st.integers(-(2**40), 2**40), st.integers(1, 10**6))
def test_divide_half_away(value: int, divisor: int) -> None:
    assert numerics.divide_half_away(value, divisor) == half_away_integer(value, divisor)


def half_away_integer(value: int, divisor: int) -> int:
    quotient = (abs(value) + divisor // 2) // divisor
    return quotient if value >= 0 else -quotient


@given(st.integers(-(2**20), 2**20))
def test_round_half_away_of_halves(twice: int) -> None:
    assert numerics.round_half_away(twice / 2) == half_away(Fraction(twice, 2))


def test_round_half_away_just_below_a_half() -> None:
    below = np.nextafter(0.5, 0)
    assert numerics.round_half_away([below, -below, 0.5, -0.5]).tolist() == [0, 0, 1, -1]


def test_quantize_saturates() -> None:
    assert numerics.quantize_array([1e30, -1e30, np.inf], 0.1, 3, -128, 127).tolist() == [127, -128, 127]


@pytest.mark.parametrize("arithmetic", Arithmetic, ids=lambda a: a.value)
def test_ratios_are_formed_in_the_precision_of_their_arithmetic(arithmetic: Arithmetic) -> None:
    """In float32 only where LiteRT does so: of three scales that are not alike, every step rounds."""
    scales, result = (0.1, 0.3), 0.7
    found = scale_ratio(arithmetic, scales, result)
    short = float(np.float32(0.1) * np.float32(0.3) / np.float32(0.7))
    assert short != 0.1 * 0.3 / 0.7
    assert found == (short if arithmetic.is_tflite else 0.1 * 0.3 / 0.7)
