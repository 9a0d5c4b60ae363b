# SPDX-License-Identifier: Apache-2.0
"""The inverse of `numerics`: scales of 32 bits that have given multipliers as their ratios."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pillion.ir.numerics import Multipliers, encode_multipliers

Reals = NDArray[np.float64]
CHUNK = 2**17
"""The mantissas that are tried together: they stay in a core's cache."""
NO_RATIO = 2.0**-40
"""A ratio that is too small for a multiplier, of a channel that computes nothing."""


def weight_scales(multipliers: Multipliers, x: float, y: float) -> tuple[float, ...] | None:
    """Returns the scales of weights that give a layer's multipliers between an operand and a result of these scales; None if
    there are none. Others than the nearest ones are too far away: their steps are 2^7 of the multiplier's."""
    reals = np.array([m.real or NO_RATIO for m in multipliers])
    with np.errstate(over="ignore", under="ignore"):
        scales = (reals * y / x).astype(np.float32).astype(np.float64)
    if not (np.isfinite(scales).all() and scales.all()):
        return None
    return tuple(scales.tolist()) if encode_multipliers(x * scales / y) == multipliers else None


def find_scale(
    multipliers: Multipliers, *, x: float | None = None, y: float | None = None, likely: Iterable[float] = ()
) -> float | None:
    """Returns the missing scale of a layer's operand x or result y, from 1 to 2, for which weights give the multipliers;
    None if there is none. Times a power of two it is as good. The likely ones come first: an exact one is rare, and the
    same range has the same scale everywhere."""

    def ends(missing: Any) -> tuple[Any, Any]:
        return missing if x is None else x, missing if y is None else y

    def is_exact(scale: float) -> bool:
        return weight_scales(multipliers, *ends(scale)) is not None

    found = next((scale for scale in likely if is_exact(scale)), None)
    fractions = sorted({m.mantissa for m in multipliers if m.mantissa})
    for first in range(2**23, 2**24, CHUNK) if found is None else ():
        scales = np.arange(first, first + CHUNK) * 2.0**-23
        for fraction in fractions:
            one, other = ends(scales)
            scales = scales[_have_weights(fraction * 2.0**-31, one / other)]
        found = next((scale for scale in scales.tolist() if is_exact(scale)), None)
        if found is not None:
            break
    return found


def _have_weights(fraction: float, ratios: Reals) -> NDArray[np.bool_]:
    """Whether the nearest scale of weights, times these ratios, has a multiplier's fraction."""
    weights = (fraction / ratios).astype(np.float32)
    return np.abs(weights * ratios - fraction) <= 2.0**-32 * 1.001
