# SPDX-License-Identifier: Apache-2.0
"""Rounds weights: the scales with the least error, the nearest levels, and levels that pass each input's error on to later inputs,
as far as inputs of samples are correlated (GPTQ, Frantar et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
MOST_INPUTS = 4096
"""Sums of more inputs are not compensated: their matrix would take hundreds of megabytes."""
BLOCK = 128
"""Inputs per block; errors are passed on to later blocks together."""
LEAST = 1e-9
"""Added to products of inputs that are always zero."""


def nearest(real: Reals, scales: Reals, levels: tuple[int, int]) -> Reals:
    """Returns the nearest levels of weights [..., outputs, inputs] with a scale for each output."""
    return np.asarray(np.clip(np.round(real / scales[..., None]), *levels))


def best_scales(real: Reals, tried: Sequence[Reals], levels: tuple[int, int], importance: Reals) -> Reals:
    """Returns for each output of weights [outputs, inputs] the scale tried with the least squared error of the nearest levels,
    inputs weighted by their importance."""
    errors = [np.square(nearest(real, s, levels) * s[:, None] - real) @ importance for s in tried]
    return np.stack(tried)[np.argmin(errors, axis=0), np.arange(len(real))]


def compensated(
    real: Reals, scales: Reals, products: Reals, levels: tuple[int, int], damping: float
) -> Reals:
    """Returns levels of weights [groups, outputs, inputs], given the products [groups, inputs, inputs] of inputs,
    summed over samples. Rounds input by input, the largest first, and passes each error on to the inputs not yet
    rounded. `damping`, relative to the mean square, keeps changes small."""
    squares = np.einsum("gii->gi", products)
    order = np.argsort(-squares, axis=1, kind="stable")
    ordered = _taken(_taken(products, order[:, :, None], 1), order[:, None, :], 2)
    diagonal = np.arange(products.shape[1])
    ordered[:, diagonal, diagonal] += damping * squares.mean(axis=1, keepdims=True) + LEAST
    upper = np.linalg.cholesky(np.linalg.inv(ordered)).swapaxes(1, 2)
    left = _taken(real, order[:, None, :], 2)
    rounded = np.zeros_like(left)
    for first in range(0, left.shape[2], BLOCK):
        last = min(first + BLOCK, left.shape[2])
        errors = np.zeros((*left.shape[:2], last - first))
        for k in range(first, last):
            rounded[..., k] = nearest(left[..., k : k + 1], scales, levels)[..., 0]
            error = (left[..., k] - rounded[..., k] * scales) / upper[:, k, k, None]
            left[..., k:last] -= error[..., None] * upper[:, None, k, k:last]
            errors[..., k - first] = error
        left[..., last:] -= errors @ upper[:, first:last, last:]
    back = np.empty_like(rounded)
    np.put_along_axis(back, order[:, None, :], rounded, axis=2)
    return back


def _taken(values: Reals, places: Any, axis: int) -> Reals:
    return np.take_along_axis(values, places, axis)
