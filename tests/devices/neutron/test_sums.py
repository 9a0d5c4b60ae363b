# SPDX-License-Identifier: Apache-2.0
"""A sum runs on the NPU, as a mean and a product."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

import pillion
from pillion.compile_options import PlacementOptions


class Summed(nn.Module):
    """A convolution, what is left of its result along two axes, and a layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.head = nn.Conv2d(3, 16, 3), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.conv(x).relu().sum((2, 3)))


def test_a_net_with_a_sum_is_on_the_npu_alone() -> None:
    batch = [torch.randn(1, 3, 9, 11, generator=torch.Generator().manual_seed(n)) for n in range(8)]
    model = Summed().eval()
    program = pillion.compile(
        model,
        batch[0],
        target="imxrt700",
        calibrate=batch,
        placement=PlacementOptions(only_npu=True),
        progress=False,
    )
    kinds = [entry.op.kind for entry in program.ledger.on_npu]
    assert "reduce_sum" not in kinds
    assert kinds.count("mean") == 1
    with torch.no_grad():
        real = [model(x).numpy() for x in batch]
    found = [program.run(x)[0] for x in batch]
    noise = sum(float(((a - b) ** 2).sum()) for a, b in zip(real, found, strict=True))
    assert 10 * np.log10(sum(float((y**2).sum()) for y in real) / noise) > 25
    checked = program.verify(1)
    assert not any(pair.bytes_different for pair in checked.pairs)
