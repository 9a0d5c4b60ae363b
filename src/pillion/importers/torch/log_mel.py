# SPDX-License-Identifier: Apache-2.0
"""Spectra of frames, and logarithms of mel spectra, as single calls."""

from __future__ import annotations

import torch
from torch import Tensor


def log_mel(
    x: Tensor,
    window: Tensor,
    filters: Tensor,
    hop: int,
    power: int,
    slope: float,
    intercept: float,
    offset: float,
    floor: float,
) -> Tensor:
    """Returns `slope` * log2(max(mel + `offset`, `floor`)) + `intercept` of frames [..., frames, bands] of signals."""
    mel = spectra(x, window, hop, 2 * (len(filters) - 1), power) @ filters
    return torch.log2(torch.clamp(mel + offset, min=floor)) * slope + intercept


def spectra(x: Tensor, window: Tensor, hop: int, points: int, power: int) -> Tensor:
    """Returns spectra [..., frames, bins] of frames of signals: magnitudes to the power of 1 or 2, or for 0 pairs of real
    and imaginary parts [..., frames, bins, 2]."""
    spectrum = torch.fft.rfft(x.unfold(-1, len(window), hop) * window, points)
    return spectrum.abs() ** power if power else torch.view_as_real(spectrum)
