# SPDX-License-Identifier: Apache-2.0
"""Cascades: a network that runs only if a cheaper one finds something."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pillion.modules.arguments import require

Results = Tensor | tuple[Tensor, ...]


class Cascade(nn.Module):
    """Answers the results of `second` if the highest score of `first` is above a threshold, else `otherwise`, tensors
    of the same shapes. Both read the same inputs. Programs run the second only if its results are answered."""

    def __init__(self, first: nn.Module, second: nn.Module, threshold: float, otherwise: Results) -> None:
        super().__init__()
        results = (otherwise,) if isinstance(otherwise, Tensor) else tuple(otherwise)
        rule = "otherwise is a tensor for each result of the second network"
        holds = bool(results) and all(isinstance(one, Tensor) for one in results)
        require(holds, self, rule, otherwise)
        self.first, self.second, self.threshold = first, second, threshold
        for number, one in enumerate(results):
            self.register_buffer(f"otherwise_{number}", one.detach().clone(), persistent=False)
        self.results = len(results)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Returns the scores of the first network, and the results of the second."""
        scores: Tensor = self.first(*inputs)
        found = scores.max() > self.threshold
        results = self.second(*inputs)
        results = (results,) if isinstance(results, Tensor) else results
        others = (self.get_buffer(f"otherwise_{number}") for number in range(self.results))
        return scores, *(torch.where(found, *both) for both in zip(results, others, strict=True))
