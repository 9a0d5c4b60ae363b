# SPDX-License-Identifier: Apache-2.0
"""Weights that depend on an input are the other operand of a product; those that depend on parameters alone are constants."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pillion
from pillion.errors import PillionError
from pillion.ops import BatchMatmul, Conv2d, Linear
from plain_int8 import decibels

pytestmark = pytest.mark.torch

NEAR = 33.0
"""Decibels that a convolution of two int8 tensors has at least, on the inputs that gave the ranges."""


class Layer(nn.Module):
    """A function of inputs."""

    def __init__(self, function: Callable[..., Tensor], **options: Any) -> None:
        super().__init__()
        self.function, self.options = function, options

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs, **self.options)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


CONVOLUTIONS: dict[str, tuple[Layer, tuple[tuple[int, ...], ...]]] = {
    "image": (Layer(F.conv2d), ((1, 3, 9, 8), (5, 3, 3, 3))),
    "images in groups, by all that can be said": (
        Layer(F.conv2d, stride=(2, 1), padding=(1, 2), groups=2, dilation=(1, 2)),
        ((2, 4, 9, 8), (6, 2, 3, 2), (6,)),
    ),
    "template in each channel": (Layer(F.conv2d, groups=7), ((1, 7, 11, 9), (7, 1, 5, 4))),
    "one pixel": (Layer(F.conv2d), ((2, 4, 5, 5), (6, 4, 1, 1))),
    "one pixel, in steps": (Layer(F.conv2d, stride=2), ((1, 4, 5, 5), (6, 4, 1, 1))),
    "image without a batch": (Layer(F.conv2d), ((2, 9, 8), (4, 2, 3, 3))),
    "signal": (Layer(F.conv1d, padding=3, stride=2, groups=2), ((2, 4, 21), (6, 2, 5), (6,))),
    "signal of the same length": (Layer(F.conv1d, padding="same"), ((3, 2, 17), (5, 2, 4))),
    "linear": (Layer(F.linear), ((2, 5, 3), (7, 3), (7,))),
}


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_filters_may_be_an_input(name: str) -> None:
    layer, shapes = CONVOLUTIONS[name]
    inputs = tuple(numbers(*shape, seed=i) for i, shape in enumerate(shapes))
    program = pillion.compile(layer, inputs, target="cortex-m33")
    (found,), wanted = program.run(*inputs), layer(*inputs).numpy()
    assert found.shape == wanted.shape
    assert decibels(wanted, found) > NEAR
    kinds = {op.kind for op in program.graph.ops}
    assert BatchMatmul.kind in kinds
    assert Conv2d.kind not in kinds


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_filters_that_are_mixed_for_each_image() -> None:
    """Each image has its own: as groups of one image with the channels of all."""

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.route, self.filters = nn.Linear(6, 3), nn.Parameter(numbers(3, 8 * 6 * 9) * 0.1)

        def forward(self, x: Tensor) -> Tensor:
            mix = torch.sigmoid(self.route(x.mean((2, 3)))) @ self.filters
            batch, channels, *size = x.shape
            y = F.conv2d(
                x.reshape(1, batch * channels, *size), mix.view(-1, 6, 3, 3), padding=1, groups=batch
            )
            return torch.relu(y.view(batch, 8, *size))

    torch.manual_seed(0)
    net, x = Mixed().eval(), numbers(2, 6, 10, 7)
    program = pillion.compile(net, x, target="cortex-m55")
    (found,) = program.run(x)
    assert decibels(net(x).detach().numpy(), found) > NEAR
    np.testing.assert_array_equal(found, program.run(x, on="host")[0])


def test_transposed_ones_are_refused() -> None:
    inputs = numbers(1, 3, 5, 5), numbers(3, 4, 3, 3)
    with pytest.raises(PillionError, match="weights are computed"):
        pillion.compile(Layer(F.conv_transpose2d), inputs, target="cortex-m33")


class Cosines(nn.Module):
    """Scores of classes as cosines: the classes' vectors have length 1, too."""

    def __init__(self) -> None:
        super().__init__()
        self.classes = nn.Parameter(numbers(11, 24))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(F.normalize(x), F.normalize(self.classes)) * 30


def test_weights_of_length_one_are_constants() -> None:
    x = numbers(2, 24)
    program = pillion.compile(Cosines(), x, target="cortex-m33")
    assert [op.kind for op in program.graph.ops].count(Linear.kind) == 1
    assert decibels(Cosines()(x).detach().numpy(), program.run(x)[0]) > NEAR


def test_weights_of_length_one_can_be_trained() -> None:
    x = numbers(2, 24)
    prepared = pillion.prepare_qat(Cosines(), (x,), target="cortex-m33")
    prepared(x).square().sum().backward()
    assert all(bool(held.grad.abs().sum() > 0) for held in prepared.parameters() if held.grad is not None)
    program = pillion.compile(prepared, (x,), target="cortex-m33")
    assert decibels(prepared.eval()(x).detach().numpy(), program.run(x)[0]) > NEAR
