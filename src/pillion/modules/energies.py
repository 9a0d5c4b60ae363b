# SPDX-License-Identifier: Apache-2.0
"""Gain control and noise reduction of mel spectra. Both follow the energies of bands by a smoothed level and compute
with logarithms, which hold in 16 bits what energies need 40 bits for."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pillion.modules.arguments import require

LEAST_ENERGY = 1e-6


class EnergyLevel(nn.Module):
    """Follows the energies of bands by levels: level = (1 - smoothing) * level + smoothing * energy. Energies and
    levels are natural logarithms. In evaluation a call continues after the last one, in training each signal begins
    with its first frame."""

    past: Tensor

    def __init__(self, bands: int, smoothing: float = 0.025, initial: float = LEAST_ENERGY) -> None:
        super().__init__()
        require(bands >= 1, self, "bands are 1 or more", bands)
        require(0 < smoothing < 1, self, "smoothing lies between 0 and 1", smoothing)
        require(0 < initial < math.inf, self, "the initial level is an energy above 0", initial)
        self.smoothing = nn.Parameter(torch.tensor(float(smoothing)))
        self.register_buffer("past", torch.full((1, bands), math.log(initial)))

    def levels(self, x: Tensor) -> Tensor:
        """Returns the logarithm of the level [signals, frames, bands] at each frame, this one included."""
        count, bands = len(self.past), self.past.shape[1]
        is_stream = not self.training
        require(
            x.dim() == 3 and x.shape[-1] == bands and (len(x) == count or not is_stream),
            self,
            f"inputs are logarithms [{'signals' if self.training else count}, frames, {bands}]",
            list(x.shape),
        )
        level, rows = self.past if is_stream else x[:, 0], []
        for frame in x.unbind(1):
            level = level + torch.log1p(self.smoothing * torch.expm1(frame - level))
            rows.append(level[:, None])
        if is_stream:
            self.past = level
        return torch.cat(rows, 1) if len(rows) > 1 else rows[0]


class Pcen(EnergyLevel):
    """Normalizes the energies of bands, given as natural logarithms [signals, frames, bands], by their level:
    (energy / level^alpha + delta)^r - delta^r.

    Train it as part of a model: alpha and delta of each band, r and the smoothing of all are parameters."""

    def __init__(
        self,
        bands: int,
        smoothing: float = 0.025,
        alpha: float = 0.98,
        delta: float = 2.0,
        r: float = 0.5,
        initial: float = LEAST_ENERGY,
    ) -> None:
        super().__init__(bands, smoothing, initial)
        holds = 0 <= alpha <= 1 and 0 < delta < math.inf and 0 < r <= 1
        require(holds, self, "alpha is 0 to 1, delta above 0, r above 0 and at most 1", (alpha, delta, r))
        self.beta = nn.Parameter(torch.full((bands,), 1 - alpha))
        self.log_delta = nn.Parameter(torch.full((bands,), math.log(delta)))
        self.r = nn.Parameter(torch.tensor(float(r)))

    def forward(self, x: Tensor) -> Tensor:
        """Returns the normalized energies, of the same shape."""
        level = self.levels(x)
        # The level's share is small against the difference, and so are its steps.
        ratio = (x - level) + level * self.beta - self.log_delta
        return torch.expm1(self.r * F.softplus(ratio)) * torch.exp(self.r * self.log_delta)


class NoiseReduction(EnergyLevel):
    """Subtracts the level from the energies of bands, given as natural logarithms [signals, frames, bands]; `least` of an
    energy remains."""

    def __init__(
        self, bands: int, smoothing: float = 0.025, least: float = 0.05, initial: float = LEAST_ENERGY
    ) -> None:
        super().__init__(bands, smoothing, initial)
        require(0 < least < 1, self, "the least share lies between 0 and 1", least)
        self.least = least

    def forward(self, x: Tensor) -> Tensor:
        """Returns the logarithms of the remaining energies, of the same shape."""
        louder = torch.clamp(self.levels(x) - x, max=0.0)
        return x + torch.log(torch.clamp(1 - torch.exp(louder), min=self.least))
