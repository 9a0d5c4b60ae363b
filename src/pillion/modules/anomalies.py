# SPDX-License-Identifier: Apache-2.0
"""Anomaly scores: distance to the nearest centre of known data, and the error of a reconstruction."""

from __future__ import annotations

from torch import Tensor, nn

from pillion.modules.arguments import require_table


class CentreDistance(nn.Module):
    """Computes the Euclidean distance of features [batch, size] to the nearest of the centres [number, size]."""

    def __init__(self, centres: Tensor) -> None:
        super().__init__()
        self.centres = nn.Parameter(require_table(self, "centres", centres))

    def forward(self, features: Tensor) -> Tensor:
        """Returns the distances [batch, 1]."""
        squares = (features[:, None] - self.centres).square().sum(2)
        return squares.amin(1, keepdim=True).sqrt()


class ReconstructionError(nn.Module):
    """Computes the mean square difference of a signal and its reconstruction, for each sample of a batch."""

    def forward(self, reconstruction: Tensor, signal: Tensor) -> Tensor:
        """Returns the errors [batch, 1]."""
        return (reconstruction - signal).square().flatten(1).mean(1, keepdim=True)
