# SPDX-License-Identifier: Apache-2.0
"""Average pools that become depthwise convolutions answer the same on the real kernels, also beyond 2^15 elements."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import pillion
from judge.beyond import BOTH
from judge.machine import CORES, Core, judged, missing

pytestmark = [
    pytest.mark.slow,
    pytest.mark.torch,
    pytest.mark.skipif(bool(missing()), reason=missing()),
]


@pytest.mark.turns(2)
@pytest.mark.parametrize("core", BOTH)
@pytest.mark.parametrize(
    ("shape", "pool"),
    [
        ((1, 8, 21, 13), nn.AvgPool2d(3)),
        ((1, 5, 11, 17), nn.AvgPool2d(3, 2, 1)),
        ((1, 16, 49, 47), nn.AvgPool2d(5, 1, 2)),
    ],
    ids=["apart", "padded", "large"],
)
def test_average_pools_are_exact(shape: tuple[int, ...], pool: nn.Module, core: Core) -> None:
    made = torch.Generator().manual_seed(0)
    xs = [torch.randn(shape, generator=made) for _ in range(5)]
    net = nn.Sequential(pool).eval()
    program = pillion.compile(net, xs[0], target=CORES[core], calibrate=xs, progress=False)
    assert "depthwise_conv2d" in [op.kind for op in program.graph.ops]
    answer = judged(program.pte(), program.graph.outputs, [[x.numpy()] for x in xs[:2]], core, "1.4")
    assert answer.ok, answer.complaint
    for x, (found,) in zip(xs, answer.outputs, strict=False):
        assert found.tobytes() == program.run(x)[0].tobytes()
