# SPDX-License-Identifier: Apache-2.0
"""Which parts of a graph may be regions, and the least that they cost."""

from __future__ import annotations

import itertools

import pytest
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


def separable(channels: int) -> nn.Sequential:
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Conv2d(3, channels, 1)]
    for _ in range(3):
        depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        layers += [depthwise, nn.ReLU(), nn.Conv2d(channels, channels, 1), nn.ReLU()]
    return nn.Sequential(*layers)


def candidates_of(net: nn.Module, x: torch.Tensor, core: str = "cortex-m33") -> Candidates:
    program = pillion.compile(net.eval(), x, target=core, io_layout="nhwc", io_dtype="int8", extra=0)
    return tiling_candidates(program.graph, program.unstriped, None)


def candidates() -> Candidates:
    found = candidates_of(Turned(), torch.randn(1, 3, 24, 20))
    assert [op.kind for op in found.graph.ops] == ["conv2d", "conv2d", "flip", "conv2d", "conv2d"]
    return found


def test_regions_begin_and_end_beside_an_op_that_runs_whole() -> None:
    """Also where no fewer bytes cross the border than in the middle of the region."""
    assert list(candidates().spans(0)) == [(0, 2), (3, 4), (3, 5), (4, 5)]


def test_steps_of_all_rows_leave_none_for_later_steps() -> None:
    found = candidates()
    assert found.least_cost(3, 5, 24) == 0
    assert found.least_cost(3, 5, 4) > 0


@pytest.mark.parametrize("core", ["cortex-m55", "cortex-m33"])
def test_least_cost_is_never_above_the_cost(core: str) -> None:
    """Heights that steps do not divide, and kernels that prefer pairs of rows."""
    plain = nn.Sequential(*(nn.Conv2d(3 if i == 0 else 8, 8, 3, padding=1) for i in range(6)))
    checked = 0
    for net, x in ((plain, torch.randn(1, 3, 25, 20)), (separable(8), torch.randn(1, 3, 25, 5))):
        found = candidates_of(net, x, core)
        parts = itertools.combinations(range(len(found.graph.ops) + 1), 2)
        for (first, end), rows in itertools.product(parts, (1, 2, 3, 4, 6, 8, 16)):
            region = found.region(first, end, rows, 0) if end - first > 1 else None
            if region is not None:
                assert found.least_cost(first, end, rows) <= region.cost, (first, end, rows)
                checked += 1
    assert checked > 200
