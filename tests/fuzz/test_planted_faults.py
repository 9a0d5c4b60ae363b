# SPDX-License-Identifier: Apache-2.0
"""Faults planted between a random program and an executor are noticed by the property that compares the two."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fuzz import properties
from fuzz.choices import from_seed
from fuzz.hunt import HUNTS
from fuzz.recipes import grown
from nightly import runs_all
from pillion import passes
from pillion.ir.graph import Graph
from pillion.ir.op import Op
from pillion.ir.types import PerChannel, PerTensor, TensorType, Value
from pillion.ir.verify import verify_graph
from pillion.ops import Conv2d, DepthwiseConv2d, Linear, Pad, Reshape, Transpose

Fault = Callable[[Op], "list[Op] | None"]
"""What stands in for an op, if the fault can be planted in it."""

PROGRAMS = 2
WEIGHTED = (Conv2d, DepthwiseConv2d, Linear)
KINDS = (Transpose, Pad, *WEIGHTED)


def swapped_height_and_width(op: Op) -> list[Op] | None:
    """The numbers come in another order, in as many places: no shape gives the fault away."""
    if not isinstance(op, Transpose) or op.x.type.rank != 4:
        return None
    first, height, width, last = op.order
    order = (first, width, height, last)
    shape = tuple(op.x.shape[axis] for axis in order)
    moved = Value(f"{op.y.name}_swapped", TensorType(shape, op.y.dtype, op.y.type.quant))
    return [dataclasses.replace(op, y=moved, order=order), Reshape(x=moved, y=op.y)]


def wrong_zero_point_in_a_pad(op: Op) -> list[Op] | None:
    if not isinstance(op, Pad):
        return None
    return [dataclasses.replace(op, value=op.value + (1 if op.value < 127 else -1))]


def shift_off_by_one(op: Op) -> list[Op] | None:
    """Twice the scales of the weights are one more in every shift."""
    if not isinstance(op, WEIGHTED):
        return None
    quant = op.weights.type.quant
    doubled: PerChannel | PerTensor
    if isinstance(quant, PerChannel):
        doubled = PerChannel(tuple(2 * scale for scale in quant.scales), quant.axis)
    else:
        doubled = PerTensor(2 * op.weights.scale, op.weights.zero_point)
    weights = dataclasses.replace(op.weights, type=dataclasses.replace(op.weights.type, quant=doubled))
    return [op.substitute({op.weights: weights})]


FAULTS = (swapped_height_and_width, wrong_zero_point_in_a_pad, shift_off_by_one)


def planted(graph: Graph, fault: Fault) -> Graph:
    """The fault in the first op in which it changes an output."""
    for index, op in enumerate(graph.ops):
        instead = fault(op)
        if instead:
            faulty = verify_graph(graph.replace(ops=(*graph.ops[:index], *instead, *graph.ops[index + 1 :])))
            if differ(graph, faulty):
                return faulty
    return graph


def differ(graph: Graph, faulty: Graph) -> bool:
    (inputs,) = properties.samples(graph, 1)[:1]
    pairs = zip(graph.reference(*inputs), faulty.reference(*inputs), strict=True)
    return any(not np.array_equal(a, b, equal_nan=True) for a, b in pairs)


def fit_for(name: str, fault: Fault) -> list[Graph]:
    """Random programs in which the fault can be seen."""
    hunt = HUNTS[name]
    seeds = (grown_from(seed, name, hunt.arithmetics[0]) for seed in itertools.count(1))
    return list(itertools.islice((g for g in seeds if planted(g, fault) is not g), PROGRAMS))


def grown_from(seed: int, name: str, arithmetic: Any) -> Graph:
    return grown(from_seed(seed), 5, arithmetic, largest=400, kinds=KINDS, accepts=HUNTS[name].accepts)


def before(monkeypatch: pytest.MonkeyPatch, function: str, fault: Fault) -> None:
    """The executor's way in gets the faulty program, the reference the right one."""
    real = getattr(properties, function)
    monkeypatch.setattr(
        properties, function, lambda graph, *others, **named: real(planted(graph, fault), *others, **named)
    )


def between_passes(monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    def faulty_pass(graph: Graph) -> Graph:
        return planted(graph, fault)

    monkeypatch.setattr(passes, "PIPELINE", (faulty_pass, *passes.PIPELINE))


WAYS_IN = {
    "host": "lower",
    "litert": "emit_tflite",
    "executorch": "emit_pte",
    "cortex-m33": "Program",
    "cortex-m55": "Program",
}
NO_EXECUTORCH = importlib.util.find_spec("executorch") is None
MARKS: dict[str, list[pytest.MarkDecorator]] = {
    "executorch": [
        pytest.mark.slow,
        pytest.mark.skipif(NO_EXECUTORCH, reason="pip install 'pillion[executorch]'"),
    ],
    "cortex-m33": [pytest.mark.slow, pytest.mark.qemu],
    "cortex-m55": [pytest.mark.slow, pytest.mark.qemu],
}


CASES = [
    pytest.param(name, fault, marks=MARKS.get(name, []))
    for i, name in enumerate(("passes", *WAYS_IN))
    for j, fault in enumerate(FAULTS)
    if runs_all() or (i - j) % len(FAULTS) == 0
]
"""Each fault in two ways in `make test`."""


@pytest.mark.turns(5)
@pytest.mark.parametrize(("name", "fault"), CASES, ids=lambda held: getattr(held, "__name__", held))
def test_planted_faults_are_noticed(name: str, fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = fit_for(name, fault)
    for graph in graphs:
        HUNTS[name].holds(graph)
    if name in WAYS_IN:
        before(monkeypatch, WAYS_IN[name], fault)
    else:
        between_passes(monkeypatch, fault)
    for graph in graphs:
        with pytest.raises(AssertionError, match="differ"):
            HUNTS[name].holds(graph)
