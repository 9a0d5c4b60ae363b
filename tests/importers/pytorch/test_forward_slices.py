# SPDX-License-Identifier: Apache-2.0
"""Reads of a part of what was written in place, or joined: where the part comes from, in its own steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.program import Program
from plain_int8 import decibels

pytestmark = pytest.mark.torch

FINE = 35.0
"""Decibels that numbers below one have with steps of their own; with those of what lies beside them here, fewer than 20."""


class Called(nn.Module):
    """A function of one tensor."""

    def __init__(self, function: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> object:
        return self.function(x)


def answered(function: Callable[[Tensor], object]) -> tuple[Program, list[tuple[np.ndarray, np.ndarray]]]:
    """The program, and PyTorch's answers with ours."""
    samples = [torch.randn(1, 6, 8, generator=torch.Generator().manual_seed(i)) for i in range(8)]
    net = Called(function)
    program = pillion.compile(net, samples[0], target="cortex-m33", calibrate=samples, progress=False)
    wanted = net(samples[0].clone())
    results = [t.numpy() for t in (wanted if isinstance(wanted, tuple) else (wanted,))]
    return program, list(zip(results, program.run(samples[0]), strict=True))


def decoded(x: Tensor) -> Tensor:
    """Boxes, as a head of a detector decodes them."""
    y = x.sigmoid()
    y[..., 0:2] = (y[..., 0:2] * 2 - 0.5) * 500
    y[..., 2:4] = (y[..., 2:4] * 2) ** 2 * 300
    return y


def joined(x: Tensor) -> tuple[Tensor, ...]:
    y = torch.cat([x * 300, x.sigmoid(), x], 1)
    return y[:, :6] + 1, y[:, 6:12], y[:, 8:11:2] * 2, y[:, -6:]


def rows(x: Tensor) -> tuple[Tensor, ...]:
    y = torch.zeros_like(x)
    y[:, 0] = x[:, 0] * 300
    y[:, 1] = x[:, 1].sigmoid()
    return y[:, 1] * 2, y[:, 1:2], y[:, 0]


def test_boxes_that_are_decoded_in_place() -> None:
    _, [(wanted, found)] = answered(decoded)
    for column in range(4):
        assert decibels(wanted[..., column], found[..., column]) > FINE


@pytest.mark.parametrize("function", [joined, rows])
def test_parts_have_their_own_steps(function: Callable[[Tensor], object]) -> None:
    _, pairs = answered(function)
    for wanted, found in pairs:
        assert found.shape == wanted.shape
        assert decibels(wanted, found) > FINE


def across(x: Tensor) -> tuple[Tensor, ...]:
    y = torch.cat([x, x + 1, x - 1], 1)
    z = x * 1
    z[:, 2:4] = x[:, :2] + 2
    w = x * 1
    w[:, ::2] = x[:, 3:] - 1
    w[..., 1:3] = x[..., :2]
    return y[:, 4:8], y[:, ::5], y[:, 3:13:2], z[:, 1:3], z[:, 3:], z[:, :2], w[:, 1::2], w[:, ::2], w[:, 2:5]


def test_reads_of_several_parts() -> None:
    """Places that lie in several operands, or partly in what was written, along one axis and another."""
    _, pairs = answered(across)
    for wanted, found in pairs:
        assert found.shape == wanted.shape
        assert np.abs(wanted - found).max() < 0.06


def test_unread_operands_are_not_concatenated() -> None:
    program, _ = answered(lambda x: torch.cat([x * 300, x.sigmoid()], 1)[:, 6:])
    assert "concat" not in {op.kind for op in program.graph.ops}
