# SPDX-License-Identifier: Apache-2.0
"""Finds the cheapest plan of 16-bit tensors for each amount of noise, by dynamic programming over the tensors in running
order."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from pillion.importers.torch.quantize.width_costs import Rows, WidthCosts

Reals = NDArray[np.float64]
LEVELS = 10
"""Noise levels per decibel: of two plans on one level, only the cheaper one is kept."""
MOST = 4096
"""Partial plans that are all kept; of more, the cheapest of each level are."""
OF_LEVEL = 32
LEAST_NOISE = 1e-12
"""Noise over the signal that is no different from none."""


def decibels(noise: Reals) -> Reals:
    """Returns the signal-to-noise ratio in dB of noise over the signal."""
    return -10 * np.log10(np.maximum(noise, LEAST_NOISE))


def cheapest_plans(
    costs: WidthCosts, noise: Mapping[str, float], floor: float, allowed: Collection[str]
) -> list[tuple[frozenset[str], float]]:
    """Returns plans with their estimated times, in order of time; each plan has less noise than all cheaper ones.
    `noise` maps tensors to the noise that each adds to `floor` in 8 bits. Only `allowed` tensors get 16 bits."""
    table, names = costs.table(), costs.tensors
    around = [sorted(costs.columns(i)) for i in range(len(costs.results))]
    ends = [max(columns, default=-1) for columns in around]
    plans, times, heard = np.zeros((1, len(names)), bool), np.zeros(1), np.full(1, floor)
    times += sum(table[i, 0] for i, end in enumerate(ends) if end < 0)
    for number, name in enumerate(names):
        if name in allowed:
            wider = plans.copy()
            wider[:, number] = True
            plans, times = np.concatenate([plans, wider]), np.tile(times, 2)
            heard = np.concatenate([heard + noise[name], heard])
        else:
            heard = heard + noise[name]
        for i, end in enumerate(ends):
            if end == number:
                times = times + table[i][costs.forms(i, plans)]
        later = {c for columns, end in zip(around, ends, strict=True) if end > number for c in columns}
        kept = _best(plans[:, sorted(c for c in later if c <= number)], times, heard)
        plans, times, heard = plans[kept], times[kept], heard[kept]
    order = np.argsort(times, kind="stable")
    return [
        (frozenset(n for n, is_wide in zip(names, plans[at], strict=True) if is_wide), float(times[at]))
        for at in order
    ]


def _best(open_tensors: Rows, times: Reals, noise: Reals) -> NDArray[np.intp]:
    """Returns the indices of the Pareto-optimal partial plans: the cheapest for their noise, among plans that agree
    on all tensors on which later costs depend."""
    packed = np.packbits(open_tensors, axis=1) if open_tensors.shape[1] else np.zeros((len(times), 1))
    groups = np.unique(packed, axis=0, return_inverse=True)[1].ravel()
    levels = np.floor(-LEVELS * decibels(noise))
    order = np.lexsort((times, levels, groups))
    below = (times - groups * (np.ptp(times) + 1))[order]  # each group lies below the ones before it
    before = np.concatenate([[np.inf], np.minimum.accumulate(below)[:-1]])
    kept = order[below < before]
    if len(kept) > MOST:
        kept = kept[np.lexsort((times[kept], levels[kept]))]
        sorted_levels = levels[kept]
        rank = np.arange(len(kept)) - np.searchsorted(sorted_levels, sorted_levels)
        kept = kept[rank < OF_LEVEL]
    return np.sort(kept)
