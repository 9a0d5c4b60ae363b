# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions with several filters for one input channel run as convolutions on Helium, with the same bytes."""

from __future__ import annotations

import numpy as np
import pytest

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel_choice import choose_kernels
from pillion.ir.graph import Graph
from pillion.ir.types import DType, PerChannel, TensorType, Value
from pillion.ir.verify import verify_graph
from pillion.ops import DepthwiseConv2d
from pillion.ops.example_values import make_op, random_like, value
from pillion.program import Program
from pillion.targets import find_target

SHAPES = {
    "micro_speech": ((1, 49, 40, 1), (10, 8), 8, (2, 2), (4, 3, 5, 3), "depthwise_im2col_mve"),
    "few taps": ((1, 24, 24, 1), (3, 3), 8, (2, 2), (0, 0, 1, 1), "depthwise_im2col_k16_mve"),
    "odd": ((2, 13, 11, 1), (5, 3), 7, (1, 1), (2, 1, 2, 1), "depthwise_im2col_mve"),
}


@pytest.mark.turns(3)
@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_filters_of_one_channel(name: str) -> None:
    shape, kernel, filters, stride, padding, wanted = SHAPES[name]
    rng = np.random.default_rng(4)
    scales = tuple(0.004 + 0.0003 * i for i in range(filters))
    weights = rng.integers(-127, 128, (1, *kernel, filters)).astype(np.int8)
    bias = rng.integers(-999, 999, filters).astype(np.int32)
    x = value("x", shape, 0.05, 3)
    w = Value("w", TensorType(weights.shape, DType.INT8, PerChannel(scales, 3)), weights)
    b = Value("b", TensorType(bias.shape, DType.INT32, PerChannel(tuple(0.05 * s for s in scales), 0)), bias)
    op = make_op(
        DepthwiseConv2d, value("y", (), 0.4, -5), x=x, weights=w, bias=b, stride=stride, padding=padding
    )
    graph = verify_graph(Graph("filters", (x,), (op,), (op.y,)))
    (choice,) = choose_kernels(graph, Isa.MVE)
    assert choice.kernel.name == wanted
    program = Program(graph, find_target("cortex-m55"))
    fed = random_like(x)
    assert np.array_equal(program.run(fed, on="mps3-an547")[0], graph.reference(fed)[0])
