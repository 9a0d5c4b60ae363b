# SPDX-License-Identifier: Apache-2.0
"""A net of attention over pixels, transposed convolution, prelu, resizing, reductions and a division, for
every kind of target: the same bytes on this computer as by the reference, and near to PyTorch."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pillion
from pillion.ops import BatchMatmul, Softmax
from pillion.ops.reduce import ReduceSum
from pillion.ops.segment import Segment
from pillion.program import Program

pytestmark = [pytest.mark.torch, pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")]

TARGETS = ("cortex-m33", "cortex-m55+int8", "imxrt700")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v = (nn.Conv2d(3, 5, k, padding=k // 2) for k in (1, 1, 3))
        self.out = nn.Conv2d(5, 4, 1)
        self.up = nn.ConvTranspose2d(4, 6, 3, 2, 1, 1)
        self.prelu = nn.PReLU(6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        n, _, h, w = x.shape
        q, k, v = (layer(x).reshape(n, 5, h * w) for layer in (self.q, self.k, self.v))
        weights = torch.softmax(torch.bmm(q.transpose(1, 2), k) * 0.2, -1)
        y = self.out(torch.bmm(v, weights.transpose(1, 2)).reshape(n, 5, h, w))
        y = F.interpolate(self.prelu(self.up(y)), scale_factor=2, mode="bilinear")
        normalized = y.sum((2, 3)) / (y.abs().amax((2, 3)) + 1)
        return y.amax((2, 3)), F.interpolate(y, scale_factor=(1, 2)), normalized


def image() -> Tensor:
    return torch.randn(2, 3, 7, 5, generator=torch.Generator().manual_seed(5))


@pytest.fixture(scope="module", params=TARGETS)
def program(request: pytest.FixtureRequest) -> Program:
    return pillion.compile(Net().eval(), (image(),), target=request.param)


@pytest.mark.turns(3)
def test_the_host_equals_the_reference(program: Program) -> None:
    for seed in range(3):
        x = torch.randn(2, 3, 7, 5, generator=torch.Generator().manual_seed(seed))
        pairs = zip(program.run(x), program.run(x, on="host"), strict=True)
        assert all(np.array_equal(wanted, found) for wanted, found in pairs)


def test_the_answer_is_near_to_pytorch(program: Program) -> None:
    """Sums are, too: they do not have to share the scale of what they sum up."""
    with torch.no_grad():
        theirs = Net().eval()(image())
    for ours, wanted in zip(program.run(image()), theirs, strict=True):
        assert abs(ours - wanted.numpy()).max() < 0.03 * float(wanted.abs().max())


def test_the_npu_takes_both_products() -> None:
    program = pillion.compile(Net().eval(), (image(),), target="imxrt700")
    inside = [op for segment in program.graph if isinstance(segment, Segment) for op in segment.body]
    assert sum(isinstance(op, BatchMatmul) for op in inside) == 2
    assert any(isinstance(op, Softmax) for op in inside)
    assert all(v.zero_point == 0 for op in inside if isinstance(op, BatchMatmul) for v in op.operands)
    assert not any(isinstance(op, ReduceSum) for op in inside)
