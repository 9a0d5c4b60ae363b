# SPDX-License-Identifier: Apache-2.0
"""Statistics of windows of signals, as the monitoring of machines uses them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

EPS = 1e-12
"""The least variance: a constant window has a deviation, crest factor and kurtosis of 0."""


def _computed(x: Tensor, statistic: str) -> Tensor:
    """Returns a statistic of real numbers."""
    deviations = x.double() - x.double().mean(-1, keepdim=True)
    variance, peak = deviations.square().mean(-1), deviations.abs().amax(-1)
    rest = variance.clamp(min=EPS)
    values = {
        "deviation": lambda: variance / rest.sqrt(),
        "peak": lambda: peak,
        "crest": lambda: peak / rest.sqrt(),
        "kurtosis": lambda: deviations.pow(4).mean(-1) / rest.square(),
    }
    return values[statistic]().to(x)


@torch.library.custom_op("pillion::window_statistic", mutates_args=())
def window_statistic(x: Tensor, statistic: str) -> Tensor:
    """Returns the deviation, peak, crest or kurtosis of windows [..., samples]: [...]."""
    return _computed(x, statistic)


@window_statistic.register_fake
def _(x: Tensor, statistic: str) -> Tensor:
    return x.new_empty(x.shape[:-1])


def _save(ctx: Any, inputs: tuple[Tensor, str], output: Tensor) -> None:
    x, ctx.statistic = inputs
    ctx.save_for_backward(x)


def _gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
    with torch.enable_grad():
        x = ctx.saved_tensors[0].detach().requires_grad_()
        return torch.autograd.grad(_computed(x, ctx.statistic), x, gradient)[0], None


window_statistic.register_autograd(_gradients, setup_context=_save)
WINDOW_STATISTIC: Any = torch.ops.pillion.window_statistic.default
"""The operator in exported programs."""


class WindowStatistics(nn.Module):
    """Computes deviation, peak, crest factor and kurtosis of windows [..., samples], all about the mean of the
    window. For signals without a constant part, the deviation is the RMS."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns the root mean square deviation, the largest deviation, their ratio (largest to root mean square) and
        the fourth standardized moment, 3 for noise: [...] each."""
        deviation, peak, crest, kurtosis = (
            WINDOW_STATISTIC(x, name) for name in ("deviation", "peak", "crest", "kurtosis")
        )
        return deviation, peak, crest, kurtosis
