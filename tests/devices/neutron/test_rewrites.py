# SPDX-License-Identifier: Apache-2.0
"""What the NPU lacks is said in terms of what it has: after the rewrites it takes what it refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from passes.test_split_groups import graph_of, grouped
from passes.test_sum_hard_sigmoids import LEVELS, function_of
from pillion import zoo
from pillion.compile_options import PlacementOptions
from pillion.devices.neutron import N3_64
from pillion.ir.graph import Graph
from pillion.ir.verdict import all_ok
from pillion.ir.verify import verify_graph
from pillion.ops import Segment
from pillion.ops.example_values import value


@pytest.mark.parametrize(
    "graph",
    [
        graph_of(grouped(11, 2, 3)),
        function_of(value("x", LEVELS.shape, 0.05, 3), value("y", LEVELS.shape, 1 / 256, -128)),
    ],
    ids=["groups", "hard_sigmoid"],
)
def test_rewrites_make_refused_ops_legal(graph: Graph) -> None:
    assert not all(all_ok(N3_64.judge(op)) for op in graph)
    for rewrite in N3_64.rewrites:
        graph = verify_graph(rewrite(graph))
    assert all(all_ok(N3_64.judge(op)) for op in graph)


class Padded(nn.Module):
    """Two convolutions around borders of the image's own pixels."""

    def __init__(self, mode: str, width: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3)
        self.mode, self.width = mode, width

    def forward(self, x: Tensor) -> Tensor:
        return self.second(nn.functional.pad(self.first(x), (self.width,) * 4, mode=self.mode))


@pytest.mark.parametrize(
    ("mode", "width", "segments"),
    [("reflect", 1, 1), ("reflect", 7, 1), ("replicate", 2, 1), ("reflect", 8, 3)],
)
def test_borders_of_the_image_itself(mode: str, width: int, segments: int) -> None:
    """Slices and concats, without flips of up to 8 rows or columns; longer flips run on the core."""
    x = torch.randn(1, 3, 14, 15, generator=torch.Generator().manual_seed(1))
    program = pillion.compile(Padded(mode, width).eval(), (x,), target="imxrt700", prefer_npu=True)
    assert sum(isinstance(op, Segment) for op in program.graph.ops) == segments
    assert ("flip" in {e.op.kind for e in program.ledger if e.segment is None}) == (segments > 1)
    cpu = pillion.compile(Padded(mode, width).eval(), (x,), target="cortex-m33")
    for on in ("reference", "host"):
        np.testing.assert_array_equal(program.run(x, on=on)[0], cpu.run(x)[0])


@pytest.mark.turns(12)
@pytest.mark.slow
def test_mobilenet_v3_becomes_one_segment() -> None:
    module, example = zoo.build("mobilenet_v3_small", 64)
    program = pillion.compile(module, example, target="imxrt700", calibrate=[example], name="mv3")
    assert sum(isinstance(op, Segment) for op in program.graph.ops) == 1
    assert {e.op.kind for e in program.ledger if e.segment is None} == {"quantize", "dequantize"}
    x = example[0].numpy()
    np.testing.assert_array_equal(program.run(x)[0], program.run(x, on="host")[0])
    cpu = pillion.compile(module, example, target="cortex-m33", calibrate=[example], name="mv3")
    assert len(cpu.tflite()) > 1000, "a .tflite file has no hard-sigmoid, but sums and products"


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(1),
        lambda x: x.sum(),
        lambda x: nn.functional.hardsigmoid(x).sum((0, 2)) - x.sum((0, 2)),
        lambda x: nn.functional.conv1d(x, torch.linspace(-1, 1, 48).reshape(8, 2, 3), groups=4),
    ],
    ids=["sum", "sum_of_all", "functions_and_sums", "groups"],
)
def test_ops_of_the_core_are_not_rewritten(function: Callable[[Tensor], Tensor]) -> None:
    """Measured for the first two as means and products: 28.6 dB instead of 38.4, and a refusal."""
    made = torch.Generator().manual_seed(0)
    xs = [torch.randn(1, 8, 23, generator=made) for _ in range(16)]
    programs = [
        pillion.compile(
            net_of(function), xs[0], target=target, calibrate=xs, placement=placement, progress=False
        )
        for target, placement in (
            ("imxrt700", PlacementOptions(keep_on_cpu=("*",))),
            ("cortex-m33", None),
        )
    ]
    kinds = [[op.kind for op in program.graph.ops] for program in programs]
    assert kinds[0] == kinds[1]
    assert [entry.op for entry in programs[0].ledger] == list(programs[0].graph.ops)
    for x in xs[:4]:
        np.testing.assert_array_equal(*(program.run(x)[0] for program in programs))
        np.testing.assert_array_equal(programs[0].run(x)[0], programs[0].run(x, on="host")[0])


def net_of(function: Callable[[Tensor], Tensor]) -> nn.Module:
    class Net(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return function(x)

    return Net().eval()


def test_silu_runs_between_convolutions() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.SiLU(), nn.Conv2d(16, 16, 3)).eval()
    graph = pillion.compile(net, torch.randn(1, 3, 12, 12), target="imxrt700").graph
    assert sum(isinstance(op, Segment) for op in graph.ops) == 1
