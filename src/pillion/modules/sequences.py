# SPDX-License-Identifier: Apache-2.0
"""Labels of sequences from the scores of networks that were trained with connectionist temporal classification."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pillion.modules.arguments import require


class CtcDecoder(nn.Module):
    """Finds the labels on the best path: the highest score of each frame, equal ones in a row counted once.

    `blank` is the class that separates labels."""

    def __init__(self, blank: int = 0) -> None:
        super().__init__()
        require(blank >= 0, self, "blank is the number of a class", blank)
        self.blank = blank

    def forward(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Returns for scores [batch, frames, classes] the label that begins at each frame, `blank` where none does, and
        how many there are: int64 [batch, frames] and [batch]."""
        best = scores.argmax(-1)
        before = torch.cat([torch.full_like(best[:, :1], self.blank), best[:, :-1]], 1)
        begins = (best != before) & (best != self.blank)
        return torch.where(begins, best, self.blank), torch.where(begins, 1, 0).sum(-1)
