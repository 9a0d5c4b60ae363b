# SPDX-License-Identifier: Apache-2.0
"""Fully connected layers with explicit multipliers as convolutions: the same bytes, in LiteRT's arithmetic, too."""

from __future__ import annotations

import numpy as np
import pytest

from explicit_multipliers import examples, with_given
from pillion.devices.neutron import N3_64
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import failed_rules
from pillion.ir.verify import verify_graph
from pillion.ops import Linear
from pillion.ops.example_values import random_like
from pillion.passes.convolve_linear import convolve_linear

LAYERS = [with_given(op) for op in examples(Linear)]


@pytest.mark.parametrize("op", LAYERS, ids=lambda op: str(op.x.shape))
def test_the_bytes_stay_in_both_arithmetics(op: Linear) -> None:
    graph = verify_graph(Graph("g", op.activations, (op,), op.results))
    made = verify_graph(convolve_linear(graph))
    assert [one.kind for one in made] == ["reshape", "conv2d", "reshape"]
    x = random_like(op.x, 3)
    for arithmetic in (Arithmetic.CMSIS_NN, Arithmetic.TFLITE):
        found = made.replace(arithmetic=arithmetic).reference(x)
        np.testing.assert_array_equal(found[0], graph.reference(x)[0])


def test_layers_with_scales_stay_and_others_are_refused_by_their_rounding() -> None:
    op = LAYERS[1]
    scaled = next(iter(examples(Linear)))
    graph = Graph("g", scaled.activations, (scaled,), scaled.results)
    assert convolve_linear(graph) is graph
    assert [verdict.rule for verdict in failed_rules(N3_64.judge(op))] == ["linear.rounding"]
