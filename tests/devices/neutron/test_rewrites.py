# SPDX-License-Identifier: Apache-2.0
"""What the NPU lacks is said in terms of what it has: after the rewrites it takes what it refused."""

from __future__ import annotations

import numpy as np
import pytest

import pillion
from passes.test_split_groups import graph_of, grouped
from passes.test_sum_hard_sigmoids import LEVELS, function_of
from pillion import zoo
from pillion.devices.neutron import N3_64
from pillion.ir.graph import Graph
from pillion.ir.verdict import all_ok
from pillion.ir.verify import verify
from pillion.ops import Segment
from pillion.ops.samples import value


@pytest.mark.parametrize(
    "graph",
    [
        graph_of(grouped(11, 2, 3)),
        function_of(value("x", LEVELS.shape, 0.05, 3), value("y", LEVELS.shape, 1 / 256, -128)),
    ],
    ids=["groups", "hard_sigmoid"],
)
def test_the_npu_takes_what_it_refused(graph: Graph) -> None:
    assert not all(all_ok(N3_64.judge(op)) for op in graph)
    for rewrite in N3_64.rewrites:
        graph = verify(rewrite(graph))
    assert all(all_ok(N3_64.judge(op)) for op in graph)


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
