# SPDX-License-Identifier: Apache-2.0
"""Scales from multipliers: what scales of 32 bits gave, scales of 32 bits are found for, and those alone."""

from __future__ import annotations

import numpy as np
import pytest

from pillion.ir.numerics import Multiplier, encode_multipliers
from pillion.ir.scale_search import find_scale, weight_scales

CHANNELS = (1, 2, 3, 7, 64)


def scales_of_layer(channels: int) -> tuple[float, float, np.ndarray]:
    """An operand's scale, a result's, and the weights', all of 32 bits."""
    rng = np.random.default_rng(channels)
    x, y, weights = rng.uniform(0.01, 0.3), rng.uniform(1, 2), rng.uniform(1e-4, 0.02, channels)
    return float(np.float32(x)), float(np.float32(y)), weights.astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("channels", CHANNELS)
def test_a_missing_scale_is_found(channels: int) -> None:
    x, y, weights = scales_of_layer(channels)
    multipliers = encode_multipliers(x * weights / y)
    result, operand = find_scale(multipliers, x=x), find_scale(multipliers, y=y)
    assert result is not None
    assert operand is not None
    for one, other in ((x, result), (operand, y), (8 * x, result / 4)):
        scales = weight_scales(multipliers, one, other)
        assert scales is not None
        assert encode_multipliers(one * np.array(scales) / other) == multipliers
        assert np.array_equal(np.float32(scales), scales)
    if channels > 5:
        assert result == y, "many channels leave one scale"
        assert operand == x / 2 ** np.floor(np.log2(x))


def test_a_likely_scale_comes_first() -> None:
    x, y, weights = scales_of_layer(2)
    multipliers = encode_multipliers(x * weights / y)
    assert find_scale(multipliers, x=x, likely=(1.25, y)) == y
    assert find_scale(multipliers, x=x, likely=(1.25,)) != 1.25


def test_multipliers_of_finer_scales_have_none() -> None:
    x, y, _ = scales_of_layer(1)
    multipliers = encode_multipliers(x * np.random.default_rng(0).uniform(1e-4, 0.02, 16) / y)
    assert find_scale(multipliers, x=x) is None
    assert weight_scales(multipliers, x, y) is None


def test_dead_channels_get_a_scale() -> None:
    x, y, weights = scales_of_layer(7)
    multipliers = (Multiplier(0, 0), *encode_multipliers(x * weights / y))
    assert find_scale(multipliers, x=x) == y
    assert weight_scales(multipliers, x, 2.0**100) is None, "a scale beyond 32 bits"
    assert weight_scales((Multiplier(0, 0),), x, 2.0**-140) is None, "a scale below 32 bits"
