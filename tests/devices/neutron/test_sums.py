# SPDX-License-Identifier: Apache-2.0
"""A sum runs on the NPU as a layer with weights of 1, which rounds once, or else as a mean and a product."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
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
    assert kinds.count("depthwise_conv2d") == 1
    with torch.no_grad():
        real = [model(x).numpy() for x in batch]
    found = [program.run(x)[0] for x in batch]
    noise = sum(float(((a - b) ** 2).sum()) for a, b in zip(real, found, strict=True))
    assert 10 * np.log10(sum(float((y**2).sum()) for y in real) / noise) > 27
    checked = program.verify(1)
    assert not any(pair.bytes_different for pair in checked.pairs)


class Reduced(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


SUMS: dict[str, tuple[tuple[int, ...], Callable[[Tensor], Tensor], str]] = {
    "rows": ((1, 8, 23), lambda x: x.sum(1), "depthwise_conv2d"),
    "images": ((1, 16, 7, 11), lambda x: x.sum((2, 3)), "linear"),
    "columns": ((3, 5, 7, 9), lambda x: x.sum(2, keepdim=True), "depthwise_conv2d"),
    "last": ((24, 9), lambda x: x.sum(1), "linear"),
    "apart": ((4, 5, 6, 8), lambda x: x.sum((1, 3)), "mean"),
    "long": ((2, 700, 97), lambda x: x.sum(1), "mean"),
}
"""Sums and the op that they become. Measured as means and products: 27.9 dB instead of 30.8 for rows, 16.5 of 38.0 for images."""


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_on_the_npu_is_as_near_as_on_the_core(name: str) -> None:
    shape, function, kind = SUMS[name]
    made = torch.Generator().manual_seed(0)
    xs = [torch.randn(shape, generator=made) for _ in range(8)]
    npu, core = (
        pillion.compile(
            Reduced(function).eval(), xs[0], target=target, calibrate=xs, placement=placement, progress=False
        )
        for target, placement in (("imxrt700", PlacementOptions(prefer_npu=True)), ("cortex-m55", None))
    )
    assert kind in [entry.op.kind for entry in npu.ledger.on_npu]
    if kind != "mean":
        steps = [float(np.diff(np.unique(core.run(x)[0])).min()) for x in xs[:2]]
        for x in xs[:2]:
            assert abs(npu.run(x)[0] - core.run(x)[0]).max() <= 1.01 * min(steps)
