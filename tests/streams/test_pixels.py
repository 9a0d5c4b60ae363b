# SPDX-License-Identifier: Apache-2.0
"""Convolutions that make one pixel become linear layers with the same bytes."""

from __future__ import annotations

import numpy as np
import pytest

from example_graphs import samples_of
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.verify import verify
from pillion.streams.pixels import linear_pixels
from streams.time_nets import Layer, TimeNet


def net(layer: Layer, frames: int, axis: int = 1, width: int = 1) -> Graph:
    return verify(TimeNet((layer,), width, 5, axis, False, "rows", -128).graph(frames))


def kinds(graph: Graph) -> list[str]:
    return [op.kind for op in verify(linear_pixels(graph)).ops]


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("dilation", [1, 3])
@pytest.mark.parametrize("more", [0, 2])
def test_one_pixel_of_a_convolution_is_a_linear_layer(axis: int, dilation: int, more: int) -> None:
    """Also where a stride leaves rows behind that no window sees."""
    graph = net(Layer("conv", 3, 4, dilation, 7, seed=5), 2 * dilation + 1 + more, axis)
    made = linear_pixels(graph)
    gathered = ["slice"] if dilation > 1 or more else []
    assert kinds(graph) == [*gathered, "reshape", "linear", "reshape"]
    for sample in samples_of(graph):
        for ours, theirs in zip(graph.reference(*sample), made.reference(*sample), strict=True):
            assert np.array_equal(ours, theirs)


def test_others_stay() -> None:
    three = Layer("conv", 3, channels=4)
    for graph in (
        net(three, 4),  # two pixels
        net(three, 3, width=2),
        net(Layer("conv", 1, channels=4), 1),
        net(Layer("depthwise", 3), 3),
        net(three, 3).replace(arithmetic=Arithmetic.TFLITE),
    ):
        assert kinds(graph) == [op.kind for op in graph.ops]
