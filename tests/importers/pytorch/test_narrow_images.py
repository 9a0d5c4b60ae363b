# SPDX-License-Identifier: Apache-2.0
"""Images of 16 bits that plain 3x3 convolutions read have as many bits as the core's fastest kernels take; all others have 16."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import pillion
from pillion.ir.types import DType
from pillion.ops import Clamp, Conv2d, Segment

SIGNED = (-(2**13), 2**13 - 1)
RECTIFIED = (0, 2**14 - 1)


class Net(nn.Module):
    """A layer before a function and a convolution."""

    def __init__(self, between: Any, channels: int = 8, **options: Any) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3)
        self.second = nn.Conv2d(8, 8, 1)
        self.last = nn.Conv2d(channels, 8, 3, **options)
        self.between = between

    def forward(self, x: Tensor) -> Tensor:
        first = self.first(x)
        return self.last(self.between(first, self.second(first)))  # type: ignore[no-any-return]  # of torch


def program(net: nn.Module, target: str = "cortex-m55", size: int = 12, **options: Any) -> pillion.Program:
    torch.manual_seed(0)
    data = [(torch.randn(1, 3, size, size),) for _ in range(4)]
    options = {"precision": "int16"} | options
    return pillion.compile(net.eval(), data[0], target=target, calibrate=data, progress=False, **options)


def image(compiled: pillion.Program) -> Any:
    """The bounds of the image that the last convolution reads."""
    return [op for op in compiled.graph.ops if isinstance(op, Conv2d)][-1].x_bounds


NARROW: dict[str, tuple[Any, Any]] = {
    "layer": (lambda a, b: b, SIGNED),
    "relu": (lambda a, b: F.relu(b), RECTIFIED),
    "relu6": (lambda a, b: F.relu6(b), RECTIFIED),
    "hardtanh": (lambda a, b: F.hardtanh(b, -0.5, 2.0), SIGNED),
    "sum": (lambda a, b: a + b, SIGNED),
    "sum and relu": (lambda a, b: F.relu(a + b), RECTIFIED),
    "maximum pool": (lambda a, b: F.max_pool2d(F.relu(b), 2), RECTIFIED),
    "nearest": (lambda a, b: F.interpolate(F.relu(b), scale_factor=2), RECTIFIED),
    "part": (lambda a, b: F.relu(b)[:, :, 1:], RECTIFIED),
}


@pytest.mark.parametrize("name", NARROW)
def test_ops_clamp_the_images_that_they_make(name: str) -> None:
    between, bounds = NARROW[name]
    compiled = program(Net(between))
    low, high = image(compiled)
    assert bounds[0] <= low <= high <= bounds[1]
    assert high - low > 2**12  # the bits are used
    assert not [op for op in compiled.graph.ops if isinstance(op, Clamp)]


@pytest.mark.parametrize(
    ("join", "bounds"),
    [
        (lambda a, b: torch.cat([F.relu(a), F.relu(b)], 1), RECTIFIED),
        (lambda a, b: torch.cat([F.relu(a), b], 1), SIGNED),
    ],
    ids=["rectified", "one-signed"],
)
def test_parts_of_an_image_are_clamped_one_by_one(join: Any, bounds: Any) -> None:
    compiled = program(Net(join, 16))
    assert image(compiled) == bounds


@pytest.mark.parametrize(
    ("net", "options"),
    [
        (Net(lambda a, b: b, stride=2), {}),
        (Net(lambda a, b: b, dilation=2), {}),
        (Net(lambda a, b: b, groups=2), {}),
        (Net(lambda a, b: torch.tanh(b)), {}),
        (Net(lambda a, b: torch.cat([b, torch.tanh(a)], 1), 16), {}),
        (Net(lambda a, b: b), {"target": "cortex-m3"}),
        (Net(lambda a, b: b), {"arithmetic": "tflite"}),
    ],
    ids=["stride", "dilation", "groups", "table", "part-of-a-table", "scalar", "tflite"],
)
def test_other_images_have_all_bits(net: nn.Module, options: dict[str, Any]) -> None:
    compiled = program(net, **options)
    assert image(compiled) is None


def test_npus_that_compute_in_16_bits_get_plain_layers() -> None:
    compiled = program(Net(lambda a, b: b), "cortex-m55+ethos-u55-128")
    ops = [
        inner for op in compiled.graph.ops for inner in (op.body.ops if isinstance(op, Segment) else (op,))
    ]
    assert [(op.low, op.high) for op in ops if isinstance(op, Conv2d)] == [DType.INT16.bounds] * 3


@pytest.mark.parametrize("target", ["cortex-m33", "cortex-m4", "mcxn947"])
def test_cores_with_dsp_leave_one_bit(target: str) -> None:
    assert image(program(Net(lambda a, b: b), target)) == (-(2**14), 2**14 - 1)
    assert image(program(Net(lambda a, b: F.relu(b)), target)) == (0, 2**15 - 1)


def test_programs_of_8_bits_stay_unchanged() -> None:
    compiled = program(Net(lambda a, b: b), precision="int8")
    assert all(v.dtype is not DType.INT16 for op in compiled.graph.ops for v in op.results)


def test_a_training_clamps_as_its_program() -> None:
    torch.manual_seed(0)
    net = Net(lambda a, b: F.relu(b))
    x = (torch.randn(1, 3, 12, 12),)
    training = pillion.prepare_qat(net, x, "cortex-m55", precision="int16")
    for _ in range(3):
        training(*x).sum().backward()
    compiled = pillion.compile(training, x, target="cortex-m55", progress=False)
    assert image(compiled) == RECTIFIED


@pytest.mark.qemu
@pytest.mark.turns(2)
@pytest.mark.parametrize(("target", "board"), [("cortex-m55", "mps3-an547"), ("cortex-m33", "mps2-an505")])
def test_numbers_far_beyond_calibration_are_clamped_everywhere(target: str, board: str) -> None:
    compiled = program(Net(lambda a, b: F.max_pool2d(a + b, 2)), target, size=20)
    x = 40 * torch.randn(1, 3, 20, 20)
    assert np.array_equal(compiled.run(x, on=board), compiled.run(x))


def test_narrow_images_lose_less_than_half_a_decibel() -> None:
    net = Net(lambda a, b: F.relu(a + b))
    x = torch.randn(1, 3, 12, 12)
    wanted = net.eval()(x).detach().numpy()

    def quality(target: str) -> float:
        noise = program(net, target).run(x) - wanted
        return float(10 * np.log10((wanted**2).sum() / (noise**2).sum()))

    assert quality("cortex-m55") > quality("cortex-m3") - 0.5
