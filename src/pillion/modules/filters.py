# SPDX-License-Identifier: Apache-2.0
"""Recursive filters of signals: cascades of sections of second order, whose state lives on between runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pillion.modules.arguments import require

Numbers = NDArray[np.float64]

ROW = 6
"""Numbers of a section: b0, b1, b2, a0, a1 and a2."""
BLOCK = 256
"""Samples that are filtered at a time, by one product."""
MOST_SECTIONS, MOST_RADIUS = 8, 0.9999


@lru_cache(maxsize=16)
def _linear_map(coefficients: tuple[float, ...], samples: int) -> Numbers:
    """Returns the matrix from samples and the last two values of all signals to results and the new values."""
    rows = np.reshape(coefficients, (-1, 5))
    unit = np.eye(samples + 2 * len(rows) + 2)
    last = list(unit[samples:].reshape(-1, 2, len(unit)))
    results = []
    for value in unit[:samples]:
        for k, (b0, b1, b2, a1, a2) in enumerate(rows):
            (x1, x2), (y1, y2) = last[k], last[k + 1]
            last[k] = np.stack([value, x1])
            value = b0 * value + b1 * x1 + b2 * x2 - a1 * y1 - a2 * y2
        last[-1] = np.stack([value, last[-1][0]])
        results.append(value)
    return np.concatenate([results, *last]).T


@torch.library.custom_op("pillion::biquads", mutates_args=())
def biquads(x: Tensor, past: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Returns filtered signals [signals, samples] with their new state behind them, [signals, 8 * sections + 4].

    A state is the last two values before, between and behind the sections, each of two numbers that add up to it,
    and zeros where a program keeps remainders. Coefficients are b0, b1, b2, a1, a2 of each section."""
    samples, words = (v.detach().cpu().double().numpy() for v in (x, past))
    count = 2 * (len(coefficients) // 5) + 2
    last = (words[:, ::2] + words[:, 1::2])[:, :count]
    results = []
    for part in np.split(samples, range(BLOCK, samples.shape[1], BLOCK), axis=1):
        size = part.shape[1]
        made = np.concatenate([part, last], axis=1) @ _linear_map(tuple(coefficients), size)
        results.append(made[:, :size])
        last = made[:, size:]
    upper = last.astype(np.float32)
    state = np.zeros(words.shape)
    state[:, : 2 * count] = np.stack([upper, last - upper], axis=-1).reshape(len(words), -1)
    return torch.from_numpy(np.concatenate([*results, state], axis=1)).to(x)


@biquads.register_fake
def _(x: Tensor, past: Tensor, coefficients: Sequence[float]) -> Tensor:
    return x.new_empty(len(x), x.shape[1] + past.shape[1])


BIQUADS: Any = torch.ops.pillion.biquads.default
"""The operator in exported programs."""


def _with_equal_gains(rows: Numbers) -> Numbers:
    """Returns sections with a largest gain of 1 each, except the last one, which has the cascade's gain. In SciPy's
    form the first section has all of it, and its numerators are too small or too large for fixed point."""
    angles = [np.linspace(0, np.pi, 512), *(np.angle(np.roots(row[3:])) for row in rows)]
    delays = np.exp(-1j * np.concatenate(angles))[:, None] ** np.arange(3)
    gains = np.abs(delays @ rows[:, :3].T / (delays @ rows[:, 3:].T)).max(axis=0)
    if not gains.all():
        return rows
    scaled = rows.copy()
    scaled[:-1, :3] /= gains[:-1, None]
    scaled[-1, :3] *= np.prod(gains[:-1])
    return scaled


class BiquadCascade(nn.Module):
    """Filters signals [..., samples] with sections of second order, given as rows b0, b1, b2, a0, a1, a2, as SciPy's
    `butter(..., output="sos")` returns them. The next call continues where the last one ended: the filters of
    `signals` signals have states of their own."""

    past: Tensor

    def __init__(self, sections: Any, signals: int = 1) -> None:
        super().__init__()
        rows = np.asarray(sections, np.float64)
        is_table = rows.ndim == 2 and rows.shape[1] == ROW and 1 <= len(rows) <= MOST_SECTIONS
        rule = f"sections are 1 to {MOST_SECTIONS} rows b0, b1, b2, a0, a1, a2 of finite numbers, a0 not 0"
        holds = is_table and bool(np.isfinite(rows).all()) and bool(rows[:, 3].all())
        require(holds, self, rule, rows.tolist() if is_table else list(rows.shape))
        require(signals >= 1, self, "signals are 1 or more", signals)
        rows = rows / rows[:, 3:4]
        radii = [float(np.abs(np.roots(row[3:])).max(initial=0)) for row in rows]
        rule = f"poles have a radius of at most {MOST_RADIUS}; from 1 on a filter is not stable"
        require(max(radii) <= MOST_RADIUS, self, rule, f"a pole of radius {max(radii):.6g}")
        self.coefficients: list[float] = np.delete(_with_equal_gains(rows), 3, axis=1).reshape(-1).tolist()
        self.register_buffer("past", torch.zeros(signals, 8 * len(rows) + 4))

    @classmethod
    def dc_blocker(cls, radius: float = 0.995, signals: int = 1) -> BiquadCascade:
        """Returns a high pass of first order: its cut-off frequency is about (1 - radius) / 2 π times the rate."""
        gain = (1 + radius) / 2
        return cls([[gain, -gain, 0.0, 1.0, -radius, 0.0]], signals)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the filtered signals, of the same shape."""
        signals, samples = x.reshape(-1, x.shape[-1]), x.shape[-1]
        count = len(self.past)
        require(len(signals) == count, self, f"inputs have {count} signals, as `signals` says", list(x.shape))
        y = BIQUADS(signals, self.past, self.coefficients)
        self.past = y[:, samples:]
        return y[:, :samples].reshape(x.shape)
