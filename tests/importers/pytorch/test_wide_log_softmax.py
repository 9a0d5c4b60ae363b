# SPDX-License-Identifier: Apache-2.0
"""Log softmaxes keep wide results, and the kernel's fixed steps where these hold all results."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion

DRAWS = torch.Generator().manual_seed(0)


class Scores(nn.Module):
    """Log softmaxes of images over their channels, or of rows."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.log_softmax(x, 1)


def drawn(spread: float, shape: tuple[int, ...]) -> list[Tensor]:
    return [spread * torch.randn(shape, generator=DRAWS) for _ in range(12)]


@pytest.mark.turns(6)
@pytest.mark.parametrize("target", ["cortex-m55", "imxrt700", "cortex-m55+ethos-u55-128"])
@pytest.mark.parametrize("shape", [(4, 10), (1, 10, 3, 3)])
def test_wide_results_keep_their_range(shape: tuple[int, ...], target: str) -> None:
    samples = drawn(20, shape)
    program = pillion.compile(Scores(), samples[0], target=target, calibrate=samples, progress=False)
    assert "log_softmax" not in {op.kind for op in program.graph.ops}
    real = [torch.log_softmax(x, 1).numpy() for x in samples]
    noise = sum(float(((program.run(x)[0] - y) ** 2).sum()) for x, y in zip(samples, real, strict=True))
    assert 10 * np.log10(sum(float((y**2).sum()) for y in real) / noise) > 35
    assert not any(pair.bytes_different for pair in program.verify(1).pairs)


@pytest.mark.parametrize(("spread", "data"), [(1, True), (20, False)])
def test_others_keep_the_kernel(spread: float, data: bool) -> None:
    samples = drawn(spread, (4, 10))
    calibrate = samples if data else None
    program = pillion.compile(Scores(), samples[0], target="cortex-m55", calibrate=calibrate, progress=False)
    assert "log_softmax" in {op.kind for op in program.graph.ops}
