# SPDX-License-Identifier: Apache-2.0
"""Average pools over the whole image have steps of their own, where the device does not want them in those of their operands."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import pillion
from pillion.ops import AvgPool2d, Mean
from pillion.program import Program


class Pooled(nn.Module):
    """Two layers, what makes one number of an image, and a layer behind it."""

    def __init__(self, pool: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.pool = pool
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 17, 3, padding=1)
        self.head = nn.Linear(17, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(self.first(x).relu()).relu()
        return self.head(self.pool(y).flatten(1))


def gem(x: Tensor) -> Tensor:
    """A generalized mean of pixels."""
    return F.avg_pool2d(x.clamp(min=1e-6).pow(3), x.shape[-2:]).pow(1 / 3)


POOLS: dict[str, Callable[[Tensor], Tensor]] = {
    "adaptive": nn.AdaptiveAvgPool2d(1),
    "pair": nn.AdaptiveAvgPool2d((1, 1)),
    "window": nn.AvgPool2d((11, 13)),
    "functional": lambda x: F.avg_pool2d(x, x.shape[-2:], stride=2, count_include_pad=False),
    "of a signal": lambda x: F.adaptive_avg_pool1d(x.flatten(2), 1),
    "gem": gem,
}
IMAGES = [torch.randn(1, 3, 11, 13, generator=torch.Generator().manual_seed(n)) for n in range(8)]


def compiled(model: nn.Module, target: str) -> Program:
    return pillion.compile(model.eval(), IMAGES[0], target=target, calibrate=IMAGES, progress=False)


def decibels(model: nn.Module, program: Program) -> float:
    with torch.no_grad():
        real = [model(x).numpy() for x in IMAGES]
    noise = sum(float(((program.run(x)[0] - y) ** 2).sum()) for x, y in zip(IMAGES, real, strict=True))
    return float(10 * np.log10(sum(float((y**2).sum()) for y in real) / noise))


@pytest.mark.parametrize("name", POOLS)
def test_a_pool_of_all_pixels_is_as_good_as_a_mean(name: str) -> None:
    model = Pooled(POOLS[name])
    program = compiled(model, "cortex-m33")
    (pool,) = [op for op in program.graph.ops if isinstance(op, (Mean, AvgPool2d))]
    assert isinstance(pool, Mean)
    assert pool.y.scale < pool.x.scale / 1.5
    assert decibels(model, program) > (30 if name == "gem" else 40)


WINDOWS: dict[str, tuple[Callable[[Tensor], Tensor], list[str]]] = {
    "3 x 3": (nn.AvgPool2d(3), ["depthwise_conv2d"]),
    "padding that counts": (nn.AvgPool2d(3, 2, 1), ["depthwise_conv2d"]),
    "not square": (nn.AvgPool2d((1, 4), (1, 2)), ["depthwise_conv2d"]),
    "whole windows": (
        nn.AvgPool2d(2, (3, 11), ceil_mode=True, count_include_pad=False),
        ["depthwise_conv2d"],
    ),
    "large": (nn.AvgPool2d(6), ["avg_pool2d"]),
    "the image and padding": (nn.AvgPool2d((11, 13), padding=(1, 1)), ["avg_pool2d"]),
    "padding that does not count": (nn.AvgPool2d(3, 1, 1, count_include_pad=False), ["avg_pool2d"]),
    "windows that are cut off": (nn.AvgPool2d(3, 3, ceil_mode=True), ["avg_pool2d"]),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_pools_whose_windows_are_alike_are_filters(name: str) -> None:
    pool, kinds = WINDOWS[name]
    program = compiled(Call(pool), "cortex-m33")
    averages = [op for op in program.graph.ops if op.kind in ("depthwise_conv2d", "avg_pool2d", "mean")]
    assert sorted({op.kind for op in averages}) == kinds
    if kinds == ["depthwise_conv2d"]:
        assert all(bool((op.weights.constant == 127).all()) for op in averages)
        assert decibels(Call(pool), program) > 35


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def test_pools_stay_without_calibration_data() -> None:
    program = pillion.compile(nn.AvgPool2d(3), IMAGES[0], target="cortex-m33", progress=False)
    assert "avg_pool2d" in [op.kind for op in program.graph.ops]


def test_an_npu_that_wants_one_scale_keeps_its_pool() -> None:
    program = compiled(Pooled(nn.AdaptiveAvgPool2d(1)), "imxrt700")
    assert [entry.op.kind for entry in program.ledger.on_npu].count("avg_pool2d") == 1
    for target in ("imxrt700", "cortex-m55+ethos-u55-128"):
        net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.AvgPool2d(3))
        assert "avg_pool2d" in [entry.op.kind for entry in compiled(net, target).ledger.entries], target


def test_trained_pools_have_their_own_steps_for_any_batch() -> None:
    prepared = pillion.prepare_qat(Pooled(nn.AdaptiveAvgPool2d(1)), IMAGES[0], "cortex-m33")
    for start in (0, 3):
        prepared(torch.cat(IMAGES[start : start + 3])).sum().backward()
    program = pillion.compile(prepared, IMAGES[0], target="cortex-m33")
    (mean,) = [op for op in program.graph.ops if isinstance(op, Mean)]
    assert mean.y.scale < mean.x.scale / 1.5


@pytest.mark.nightly
def test_all_executors_give_the_same_bytes() -> None:
    for model in (Pooled(nn.AdaptiveAvgPool2d(1)), nn.AvgPool2d(3, 2, 1)):
        found = compiled(model, "cortex-m33").verify(2)
        assert len(found.pairs) >= 1
        assert not any(pair.bytes_different for pair in found.pairs)
