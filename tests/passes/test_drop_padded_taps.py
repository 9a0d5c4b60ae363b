# SPDX-License-Identifier: Apache-2.0
"""Windows of which one row or column meets the image: the others multiply padding, and have no weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Pair, Sides
from pillion.ops import Conv2d, DepthwiseConv2d
from pillion.ops.example_values import conv_bias, conv_weights, make_op, value
from pillion.passes import drop_padded_taps


def graph_of(
    kind: type[Conv2d | DepthwiseConv2d], size: Pair, window: Pair, padding: Sides, **geometry: Any
) -> Graph:
    x = value("x", (1, *size, 4), zero_point=3)
    is_depthwise = kind is DepthwiseConv2d
    weights = conv_weights((1 if is_depthwise else 5, *window, 4), 3 if is_depthwise else 0, 1)
    bias = conv_bias(x, weights, 4 if is_depthwise else 5, 2)
    y = value("y", (1, 1, 1, 4), zero_point=-5)
    op = make_op(kind, y, x=x, weights=weights, bias=bias, padding=padding, **geometry)
    return Graph("g", (x,), (op,), op.results, Arithmetic.CMSIS_NN)


@pytest.mark.parametrize("kind", [Conv2d, DepthwiseConv2d])
@pytest.mark.parametrize(
    ("size", "window", "padding", "geometry", "kept"),
    [
        ((1, 1), (3, 3), (1, 1, 1, 1), {}, (1, 1)),
        ((4, 4), (3, 3), (12, 12, 12, 12), {"dilation": (12, 12)}, (1, 1)),
        ((4, 6), (3, 3), (4, 4, 4, 4), {"dilation": (4, 4)}, (1, 3)),
        ((1, 6), (3, 3), (1, 1, 1, 1), {"stride": (2, 2)}, (1, 3)),
        ((2, 1), (3, 3), (1, 1, 1, 1), {"stride": (2, 1)}, (3, 1)),
        ((2, 1), (1, 5), (0, 4, 0, 0), {}, (1, 1)),
        ((1, 1), (2, 2), (2, 2, 0, 0), {}, (1, 1)),
        ((2, 2), (2, 2), (1, 1, 1, 1), {"dilation": (2, 2), "stride": (3, 3)}, (2, 2)),
        ((3, 3), (3, 3), (1, 1, 1, 1), {}, (3, 3)),
    ],
)
def test_the_bytes_stay(
    kind: Any, size: Pair, window: Pair, padding: Sides, geometry: dict[str, Any], kept: Pair
) -> None:
    graph = graph_of(kind, size, window, padding, **geometry)
    smaller = drop_padded_taps(graph)
    (op,) = smaller.ops
    assert op.weights.shape[1:3] == kept
    x = np.random.default_rng(4).integers(-128, 128, graph.inputs[0].shape).astype(np.int8)
    assert np.array_equal(smaller.reference(x)[0], graph.reference(x)[0])
