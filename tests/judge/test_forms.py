# SPDX-License-Identifier: Apache-2.0
"""Forms that are chosen because the real kernels take fewer instructions: the same bytes, and how many they take."""

from __future__ import annotations

import pytest

from judge.beyond import BOTH
from judge.inputs import samples
from judge.machine import CORES, Core, judged, missing
from pillion.devices import cortex_m
from pillion.emitters.pte import emit
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import Shape
from pillion.ops import Conv2d, Linear, Mean
from pillion.ops.example_values import conv_bias, conv_weights, make_op, value

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing()), reason=missing())]


def mean(shape: Shape) -> Op:
    return make_op(Mean, value("y", (), 0.02, 5), x=value("x", shape, 0.05, -3), axes=(1, 2))


def weighted(cls: type[Conv2d] | type[Linear], x: Shape, weights: Shape, **fields: object) -> Op:
    image, w = value("x", x, 0.05, -3), conv_weights(weights, 0, 1)
    bias = conv_bias(image, w, weights[0], 2)
    return make_op(cls, value("y", (), 0.9, 4), x=image, weights=w, bias=bias, **fields)


FORMS: dict[str, tuple[Op, dict[Core, int]]] = {
    "mean of 3x3": (mean((1, 3, 3, 256)), {"m33": 21_000, "m55": 9_700}),
    "mean of 8x8": (mean((1, 8, 8, 64)), {"m33": 37_000, "m55": 11_200}),
    "mean, batch": (mean((3, 5, 2, 32)), {"m33": 30_000, "m55": 12_000}),
    "RGB": (
        weighted(Conv2d, (1, 32, 32, 3), (16, 3, 3, 3), padding=(1, 1, 1, 1)),
        {"m33": 2_140_000, "m55": 556_000},
    ),
    "RGB, stride 2": (
        weighted(Conv2d, (1, 96, 96, 3), (8, 3, 3, 3), stride=(2, 2), padding=(0, 0, 1, 1)),
        {"m33": 3_060_000, "m55": 788_000},
    ),
    "RGB, two images": (
        weighted(Conv2d, (2, 10, 12, 3), (4, 5, 4, 3), stride=(1, 2), padding=(2, 3, 1, 3)),
        {"m33": 650_000, "m55": 125_000},
    ),
    "pairs of pixels": (
        weighted(Conv2d, (1, 8, 8, 4), (8, 1, 2, 4), stride=(1, 2)),
        {"m33": 60_000, "m55": 17_000},
    ),
    "eight rows": (weighted(Linear, (8, 64), (64, 64)), {"m33": 82_000, "m55": 22_000}),
    "nine rows": (weighted(Linear, (9, 256), (256, 256)), {"m33": 1_155_000, "m55": 160_000}),
}
"""The op, and the most instructions of its program."""


@pytest.mark.turns(4)
@pytest.mark.parametrize("core", BOTH)
@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_exact_and_takes_few_instructions(name: str, core: Core) -> None:
    op, most = FORMS[name]
    graph = Graph(name, (op.operands[0],), (op,), op.results)
    answer = judged(
        emit(graph, cortex_m.CORES[CORES[core]], "1.4"), graph.outputs, samples(graph), core, "1.4"
    )
    assert answer.ok, answer.complaint
    for inputs, outputs in zip(samples(graph), answer.outputs, strict=True):
        assert outputs[0].tobytes() == graph.reference(*inputs)[0].tobytes()
    assert max(answer.instructions) <= most[core]
