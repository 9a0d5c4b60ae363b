# SPDX-License-Identifier: Apache-2.0
"""Logarithms of mel spectra as a single call."""

from __future__ import annotations

import torch
from torch import Tensor


def log_mel(
    x: Tensor,
    window: Tensor,
    filters: Tensor,
    hop: int,
    slope: float,
    intercept: float,
    offset: float,
    floor: float,
) -> Tensor:
    """Returns `slope` * log2(max(mel + `offset`, `floor`)) + `intercept` of frames [..., frames, bands] of signals."""
    frames = x.unfold(-1, len(window), hop) * window
    power = torch.fft.rfft(frames, 2 * (len(filters) - 1)).abs().square()
    return torch.log2(torch.clamp(power @ filters + offset, min=floor)) * slope + intercept
