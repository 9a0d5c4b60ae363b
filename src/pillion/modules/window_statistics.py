# SPDX-License-Identifier: Apache-2.0
"""Statistics of windows of signals, as the monitoring of machines uses them."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

EPS = 1e-12
"""The least variance: a constant window has a deviation, crest factor and kurtosis of 0."""


class WindowStatistics(nn.Module):
    """Computes deviation, peak, crest factor and kurtosis of windows [..., samples], all about the mean of the
    window: what is called RMS where signals have no constant part is the deviation."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns the root mean square deviation, the largest deviation, their ratio (largest to root mean square) and
        the fourth standardized moment, 3 for noise: [...] each."""
        # Standardized numbers have one range however loud a signal is, and products are rounded after their sum.
        standard = F.layer_norm(x, x.shape[-1:], eps=EPS)
        squares, crest = standard.square(), standard.abs().amax(-1)
        deviation = _mean_product(standard, x)
        return deviation, crest * deviation, crest, _mean_product(squares, squares)


def _mean_product(a: Tensor, b: Tensor) -> Tensor:
    return (a[..., None, :] @ b[..., None])[..., 0, 0] / a.shape[-1]
