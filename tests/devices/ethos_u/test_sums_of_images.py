# SPDX-License-Identifier: Apache-2.0
"""Sums over several axes run on the NPU, as sums over one: what Vela makes of them computes the same bytes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import pillion
from ethos_streams import needs_vela
from pillion.compile_options import PlacementOptions
from pillion.program import Program


class Summed(nn.Module):
    """A convolution, and its sums over some axes."""

    def __init__(self, axes: tuple[int, ...], keepdim: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.axes, self.keepdim = nn.Conv2d(3, 9, 3), axes, keepdim

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x).relu().sum(self.axes, keepdim=self.keepdim)


def on_the_npu(axes: tuple[int, ...], keepdim: bool, rows: int = 11) -> Program:
    batch = [torch.randn(1, 3, rows, 13, generator=torch.Generator().manual_seed(n)) for n in range(3)]
    return pillion.compile(
        Summed(axes, keepdim).eval(),
        batch[0],
        target="cortex-m55+ethos-u55-128",
        calibrate=batch,
        placement=PlacementOptions(only_npu=True),
        progress=False,
    )


@pytest.mark.turns(6)
@needs_vela
@pytest.mark.parametrize(
    ("axes", "keepdim"),
    [((2, 3), False), ((2, 3), True), ((1,), False), ((1, 2, 3), False), ((0, 2, 3), False), ((3,), False)],
)
def test_all_of_a_net_with_a_sum_is_on_the_npu(axes: tuple[int, ...], keepdim: bool) -> None:
    program = on_the_npu(axes, keepdim)
    assert "reduce_sum" in {entry.op.kind for entry in program.ledger.on_npu}
    checked = program.verify(2)
    assert "npu" in {run.executor for run in checked.runs if run.outputs}
    assert checked.ok


@needs_vela
def test_long_sums() -> None:
    program = on_the_npu((2, 3), False, rows=190)
    assert program.verify(1).ok
