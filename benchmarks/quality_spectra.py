# SPDX-License-Identifier: Apache-2.0
"""Networks of sounds whose parts are hard for int8, for benchmarks/quality.py."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FRAME, HOP, SAMPLES = 64, 32, 1024


def example_inputs() -> tuple[Tensor, ...]:
    """Gives a sound for any network."""
    return (torch.zeros(1, 1, SAMPLES),)


class Spectrum(nn.Module):
    """Cosines and sines of all frequencies over frames under a window: the real and the imaginary parts of a spectrum."""

    def __init__(self) -> None:
        super().__init__()
        angles = torch.arange(FRAME // 2 + 1)[:, None] * torch.arange(FRAME)[None] * 2 * math.pi / FRAME
        window = torch.hann_window(FRAME)
        self.register_buffer("cosines", (torch.cos(angles) * window)[:, None])
        self.register_buffer("sines", (torch.sin(angles) * window)[:, None])

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Gives both parts."""
        real, imaginary = (F.conv1d(x, held, stride=HOP) for held in (self.cosines, self.sines))
        return real, imaginary


class LogPower(Spectrum):
    """The logarithm of power, as it is."""

    def forward(self, x: Tensor) -> Tensor:
        """Gives one number for each frequency and frame."""
        real, imaginary = self.parts(x)
        return torch.log(real**2 + imaginary**2 + 1e-6)


class LoudFrames(Spectrum):
    """Decibels of magnitudes before a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv1d(FRAME // 2 + 1, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Gives eight scores for each frame."""
        real, imaginary = self.parts(x)
        loud: Tensor = self.head(20 * torch.log10(torch.sqrt(real * real + imaginary * imaginary + 1e-4)))
        return loud
