# SPDX-License-Identifier: Apache-2.0
"""Normalization of pixels: folded into the layers that read it, or one op with one rounding."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pillion
from nightly import in_turn
from pillion.modules import Normalize

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
Function = Callable[[Tensor], Tensor]
IMAGENET = Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
MEAN = torch.tensor([0.485, 0.456, 0.406])


def photo(batch: int = 1) -> Tensor:
    smooth = F.interpolate(torch.rand(batch, 3, 4, 5) * 255, (17, 13), mode="bilinear")
    return (smooth + 10 * torch.randn_like(smooth)).clamp(0, 255).to(torch.uint8)


class Net(nn.Module):
    def __init__(self, scaled: Function, padding: int, heads: int = 1) -> None:
        super().__init__()
        self.scaled = scaled
        self.layers = nn.ModuleList(nn.Conv2d(3, 8, 3, 2, padding) for _ in range(heads))

    def forward(self, x: Tensor) -> Tensor:
        scaled = self.scaled(x)
        return torch.cat([layer(scaled) for layer in self.layers], 1)


def resized(x: Tensor) -> Tensor:
    return IMAGENET(F.interpolate(x.float().flip(3), (11, 9), mode="bilinear"))


def turned_over(x: Tensor) -> Tensor:
    return 1 - (x.float() * (1 / 255) + MEAN[:, None, None]) * 2


def channels_last(x: Tensor) -> Tensor:
    return ((x.permute(0, 2, 3, 1).float() / 255 - MEAN) / 0.25).permute(0, 3, 1, 2)


CASES: dict[str, tuple[Function, int, int, list[str], float]] = {
    "folded": (IMAGENET, 0, 1, [], 36),
    "folded into two layers": (IMAGENET, 0, 2, [], 36),
    "folded behind a resize": (resized, 0, 1, [], 36),
    "folded, products and sums": (turned_over, 0, 1, [], 36),
    "folded, padded with black": (Normalize(0.0, [0.2, 0.3, 0.4]), 1, 1, [], 38),
    "channels that differ, padded": (IMAGENET, 1, 1, ["depthwise_conv2d"], 32),
    "channels alike, padded": (Normalize(0.5, 0.25), 1, 1, ["lut"], 34),
    "unknown order": (channels_last, 0, 1, ["mul", "sub", "mul"], 32),
}
ELEMENTWISE = ("mul", "sub", "add", "lut", "depthwise_conv2d")


@needs_cc
@pytest.mark.parametrize(("name", "precision"), in_turn(CASES, ["int8", "int16"]))
def test_pixels_are_scaled_in_the_layers_that_read_them(name: str, precision: str) -> None:
    torch.manual_seed(5)
    scaled, padding, heads, kinds, least = CASES[name]
    net, samples = Net(scaled, padding, heads).eval(), [photo() for _ in range(16)]
    program = pillion.compile(
        net, samples[0], target="cortex-m33", calibrate=samples, precision=precision, progress=False
    )
    assert [op.kind for op in program.graph.ops if op.kind in ELEMENTWISE] == kinds
    errors, numbers = 0.0, 0.0
    for x in (photo() for _ in range(8)):
        (found,), wanted = program.run(x.numpy()), net(x).detach().numpy()
        np.testing.assert_array_equal(program.run(x.numpy(), on="host")[0], found)
        errors, numbers = errors + float(((found - wanted) ** 2).sum()), numbers + float((wanted**2).sum())
    assert 10 * math.log10(numbers / errors) > least + (8 if precision == "int16" else 0)


def test_training_keeps_the_weights_of_layers() -> None:
    torch.manual_seed(6)
    net = Net(IMAGENET, 0)
    trained = pillion.prepare_qat(net, photo(), "cortex-m33")
    optimizer = torch.optim.SGD(trained.parameters(), 0.01)
    for _ in range(3):
        loss = trained(photo()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    program = pillion.compile(trained.eval(), photo(), target="cortex-m33")
    x = photo()
    (found,), wanted = program.run(x.numpy()), trained(x).detach().numpy()
    step = np.diff(np.unique(wanted)).min()
    assert np.abs(found - wanted).max() < 1.01 * step
