# SPDX-License-Identifier: Apache-2.0
"""Which parts of a graph may be regions, and the least that they cost."""

from __future__ import annotations

import itertools

import torch
from torch import nn

import pillion
from pillion.tiling.candidates import Candidates
from pillion.tiling.search import tiling_candidates


class Turned(nn.Module):
    """Two convolutions, a flip of the rows, and two convolutions."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        channels = (3, 8, 8, 4, 4)
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in itertools.pairwise(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.convs[1](self.convs[0](x).relu()).relu().flip(2)
        return self.convs[3](self.convs[2](x).relu())


def candidates() -> Candidates:
    options = {"io_layout": "nhwc", "io_dtype": "int8", "extra": 0}
    program = pillion.compile(Turned().eval(), torch.randn(1, 3, 24, 20), target="cortex-m33", **options)
    assert [op.kind for op in program.graph.ops] == ["conv2d", "conv2d", "flip", "conv2d", "conv2d"]
    return tiling_candidates(program.graph, program.whole, None)


def test_regions_begin_and_end_beside_an_op_that_runs_whole() -> None:
    """Also where no fewer bytes cross the border than in the middle of the region."""
    assert list(candidates().spans(0)) == [(0, 2), (3, 4), (3, 5), (4, 5)]


def test_steps_of_all_rows_leave_none_for_later_steps() -> None:
    found = candidates()
    assert found.least_cost(3, 5, 24) == 0
    assert found.least_cost(3, 5, 4) > 0
