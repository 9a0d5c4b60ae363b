# SPDX-License-Identifier: Apache-2.0
"""Images of a few rows that are made larger: the search for stripes asks for no row behind the last one."""

from __future__ import annotations

import itertools

import pytest

from pillion.compile_options import CompileOptions, Memory
from pillion.compiler import compile_graph
from pillion.ir.graph import Graph
from pillion.ir.types import DType, PerTensor, TensorType, Value
from pillion.ops.clamp import Clamp
from pillion.ops.resize import Resize, ResizeBilinear, ResizeBilinearFloat, ResizeNearest
from pillion.targets import find_target

QUANT = PerTensor(0.1, 3)


def image(name: str, side: int) -> Value:
    return Value(name, TensorType((1, side, side, 2), DType.INT8, QUANT))


@pytest.mark.turns(2)
@pytest.mark.parametrize("cls", [ResizeNearest, ResizeBilinear, ResizeBilinearFloat])
def test_images_of_a_few_rows(cls: type[Resize]) -> None:
    for before, after, align in itertools.product((1, 2, 3), (1, 2, 5, 33), (False, True)):
        first, x, y, last = (
            image("first", before),
            image("x", before),
            image("y", after),
            image("last", after),
        )
        ops = (
            Clamp(x=first, y=x, low=-100, high=100),
            cls(x=x, y=y, size=(after, after), align_corners=align),
            Clamp(x=y, y=last, low=-90, high=100),
        )
        graph = Graph("net", (first,), ops, (last,))
        assert compile_graph(graph, find_target("cortex-m33"), CompileOptions(memory=Memory(extra=0.5))).files
