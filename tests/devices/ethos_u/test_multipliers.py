# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions with several filters for each channel: a plain convolution where that is faster, the same bytes, and a small
part of the cycles that Vela says of the other form."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from ethos_streams import needs_vela
from pillion.compile_options import CompileOptions, PlacementOptions
from pillion.compiler import compile_graph
from pillion.devices.ethos_u import ETHOS_U
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import PerChannel, constant_value
from pillion.ir.verify import verify_graph
from pillion.ops import Conv2d, DepthwiseConv2d
from pillion.ops.example_values import make_op, value
from pillion.targets import find_target

SIZES = ("ethos-u55-32", "ethos-u55-256", "ethos-u65-256", "ethos-u85-256")


def net(channels: int, multiplier: int, side: int = 24, **more: object) -> Graph:
    """One layer, with a zero point at the end."""
    rng = np.random.default_rng([channels, multiplier])
    out = channels * multiplier
    scales = tuple(rng.uniform(0.002, 0.02, out))
    weights = constant_value(
        "w", rng.integers(-127, 128, (1, 3, 3, out)).astype(np.int8), PerChannel(scales, 3)
    )
    bias = constant_value(
        "b", rng.integers(-999, 999, out).astype(np.int32), PerChannel(tuple(s * 0.05 for s in scales), 0)
    )
    x = value("x", (1, side, side + 1, channels), 0.05, -128)
    op = make_op(DepthwiseConv2d, value("y", (), 0.2, 5), x=x, weights=weights, bias=bias, **more)
    return verify_graph(Graph("g", op.activations, (op,), op.results, Arithmetic.TFLITE))


def rewritten(graph: Graph, npu: str) -> Graph:
    for one in ETHOS_U[npu].rewrites:
        graph = one(graph)
    return verify_graph(graph)


@pytest.mark.parametrize("npu", SIZES)
@pytest.mark.parametrize(("channels", "multiplier"), [(1, 8), (3, 8), (5, 3), (8, 2), (16, 2), (17, 3)])
def test_few_channels_become_a_plain_convolution(npu: str, channels: int, multiplier: int) -> None:
    graph = net(channels, multiplier, padding=(1, 1, 1, 1), low=-100)
    made = rewritten(graph, npu)
    assert [type(op) for op in made] == [Conv2d]
    x = np.random.default_rng(1).integers(-128, 128, graph.inputs[0].shape).astype(np.int8)
    assert made.reference(x)[0].tolist() == graph.reference(x)[0].tolist()


@pytest.mark.parametrize("npu", SIZES)
def test_unprofitable_convolutions_stay(npu: str) -> None:
    """Many channels, one filter for each, or a form that no rule allows."""
    for graph in (net(128, 2, 6), net(256, 2, 6), net(8, 1), net(8, 2, stride=(4, 1), padding=(1, 0, 1, 0))):
        assert [type(op) for op in rewritten(graph, npu)] == [DepthwiseConv2d]


@needs_vela
def test_vela_says_that_it_is_faster_and_the_stream_answers_the_same() -> None:
    """Against the same layer, as it was before."""
    prefers = PlacementOptions(prefer_npu=True)
    target = find_target("cortex-m55+ethos-u55-256")
    assert target.npu is not None
    as_it_was = dataclasses.replace(target, npu=dataclasses.replace(target.npu, rewrites=()))
    for channels, multiplier in ((3, 8), (16, 2)):
        graph = net(channels, multiplier, padding=(1, 1, 1, 1))
        now, before = (
            compile_graph(graph, chip, CompileOptions(placement=prefers)) for chip in (target, as_it_was)
        )
        assert 3 * sum(now.payloads.cycles) < sum(before.payloads.cycles)
        x = np.random.default_rng(2).integers(-128, 128, graph.inputs[0].shape).astype(np.int8)
        assert now.run(x, on="npu")[0].tolist() == graph.reference(x)[0].tolist()
