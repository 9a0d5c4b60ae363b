# SPDX-License-Identifier: Apache-2.0
"""What a convolution sees that makes one pixel is put together; on Helium it then runs as a product with one vector."""

from __future__ import annotations

import numpy as np
import pytest

from example_graphs import samples_of
from nightly import pairwise, part_of
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.lower import lower
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.verify import verify_graph
from pillion.program import Program
from pillion.streams.pixels import gathered_pixels
from pillion.targets import find_target
from streams.time_nets import Layer, TimeNet


def net(layer: Layer, frames: int, axis: int = 1, width: int = 1) -> Graph:
    return verify_graph(TimeNet((layer,), width, 5, axis, False, "rows", -128).graph(frames))


def kinds(graph: Graph) -> list[str]:
    return [op.kind for op in verify_graph(gathered_pixels(graph)).ops]


@pytest.mark.parametrize(
    ("arithmetic", "axis", "dilation", "more"), pairwise(list(Arithmetic), [1, 2], [1, 3], [0, 2])
)
def test_one_pixel_of_a_convolution(axis: int, dilation: int, more: int, arithmetic: Arithmetic) -> None:
    """Also where a stride leaves rows behind that no window sees."""
    graph = net(Layer("conv", 3, 4, dilation, 7, seed=5), 2 * dilation + 1 + more, axis)
    graph = graph.replace(arithmetic=arithmetic)
    made = gathered_pixels(graph)
    assert kinds(graph) == [*(["slice"] if dilation > 1 or more else []), "conv2d"]
    for sample in samples_of(graph):
        for ours, theirs in zip(graph.reference(*sample), made.reference(*sample), strict=True):
            assert np.array_equal(ours, theirs)
    assert lower(made, Isa.MVE).steps[-1].choice.kernel.name == "conv2d_pixel_mve"


@pytest.mark.turns(3)
@pytest.mark.qemu
@pytest.mark.parametrize("channels", part_of([1, 7, 16, 33], 2))
def test_the_kernel_for_one_pixel(channels: int) -> None:
    """In both arithmetics, at the ends of the range."""
    for arithmetic in Arithmetic:
        graph = verify_graph(
            TimeNet((Layer("conv", 5, channels=9, seed=4),), 1, channels, 1, False, "rows", 127).graph(5)
        )
        graph = graph.replace(arithmetic=arithmetic)
        program = Program(graph, find_target("cortex-m55"))
        assert [step.choice.kernel.name for step in program.lowered.steps] == ["conv2d_pixel_mve"]
        for sample in samples_of(graph):
            assert np.array_equal(program.run(*sample, on="mps3-an547")[0], graph.reference(*sample)[0])


def test_others_stay() -> None:
    three = Layer("conv", 3, channels=4)
    for graph in (
        net(three, 4),  # two pixels
        net(three, 3, width=2),
        net(Layer("depthwise", 3), 3),
    ):
        assert kinds(graph) == [op.kind for op in graph.ops]
        assert lower(graph, Isa.MVE).steps[-1].choice.kernel.name != "conv2d_pixel_mve"


def test_one_pixel_as_it_is_needs_no_moving() -> None:
    graph = net(Layer("conv", 1, channels=4), 1)
    assert kinds(graph) == [op.kind for op in graph.ops]
    assert lower(graph, Isa.MVE).steps[-1].choice.kernel.name == "conv2d_pixel_mve"
