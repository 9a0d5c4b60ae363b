# SPDX-License-Identifier: Apache-2.0
"""Convolutions whose 16-bit images are never negative are marked, and no others; what follows from a mark is true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pillion
from pillion.emitters.c.nonnegative import BOUNDED, KEEPING, mark_nonnegative
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, TensorType, Value, constant_value
from pillion.ir.verify import verify_graph
from pillion.ops import AvgPool2d, Clamp, Concat, Conv2d, Flip, MaxPool2d, Pad, Slice, Sub
from pillion.ops.example_values import make_op

BOUNDS = {"low": -(2**15), "high": 2**15 - 1}
IMAGE = (1, 6, 6, 4)
POOL = {"kernel": (2, 2), "padding": (1, 0, 0, 1)}


def tensor(name: str, shape: tuple[int, ...] = ()) -> Value:
    return Value(name, TensorType(shape, DType.INT16, PerTensor(0.01)))


def relu(x: Value) -> Op:
    return make_op(Clamp, tensor("r"), x=x, **(BOUNDS | {"low": 0}))


def conv(x: Value, name: str = "z", low: int = -(2**15)) -> Any:
    weights = constant_value(f"{name}_w", np.ones((4, 3, 3, x.shape[3]), np.int8), PerTensor(0.01))
    bias = constant_value(f"{name}_b", np.zeros(4, np.int32))
    return make_op(Conv2d, tensor(name), x=x, weights=weights, bias=bias, **(BOUNDS | {"low": low}))


def marks(*ops: Op, **fields: Any) -> list[bool]:
    """The marks of the convolutions in a graph of one input."""
    graph = verify_graph(Graph("g", (tensor_of_input(ops),), ops, ops[-1].results, **fields))
    return [op.x_nonnegative for op in mark_nonnegative(graph).ops if isinstance(op, Conv2d)]


def tensor_of_input(ops: tuple[Op, ...]) -> Value:
    return ops[0].activations[0]


CARRIED: dict[str, tuple[bool, Callable[[Value], Op]]] = {
    "part": (
        True,
        lambda r: make_op(Slice, tensor("y", (1, 5, 6, 4)), x=r, begin=(0, 1, 0, 0), step=(1, 1, 1, 1)),
    ),
    "maximum": (True, lambda r: make_op(MaxPool2d, tensor("y"), x=r, **POOL, **BOUNDS)),
    "average": (True, lambda r: make_op(AvgPool2d, tensor("y"), x=r, **POOL, **BOUNDS)),
    "concatenation": (True, lambda r: make_op(Concat, tensor("y"), xs=(r, r), axis=3)),
    "order": (True, lambda r: make_op(Flip, tensor("y"), x=r, axes=(1,))),
    "padding": (True, lambda r: pad(r, 0)),
    "negative padding": (False, lambda r: pad(r, -1)),
    "difference": (False, lambda r: make_op(Sub, tensor("y"), a=r, b=r, **BOUNDS)),
}


def pad(x: Value, value: int) -> Op:
    return make_op(Pad, tensor("y"), x=x, before=(0, 1, 1, 0), after=(0, 1, 1, 0), value=value)


@pytest.mark.parametrize("name", CARRIED)
def test_ops_that_keep_the_sign_are_seen_through(name: str) -> None:
    is_marked, make = CARRIED[name]
    x = tensor("x", IMAGE)
    first = relu(x)
    between = make(first.results[0])
    assert marks(first, between, conv(between.results[0])) == [is_marked]
    unbounded = make(x)
    assert marks(unbounded, conv(unbounded.results[0])) == [False]


def test_layers_with_bounds_are_producers_and_inputs_are_not() -> None:
    first = conv(tensor("x", IMAGE), "y", low=0)
    assert marks(first, conv(first.y)) == [False, True]
    unbounded = replace(first, low=-1)
    assert marks(unbounded, conv(unbounded.y)) == [False, False]


def test_a_graph_without_marks_stays_what_it_is() -> None:
    layer = conv(tensor("x", IMAGE))
    graph = Graph("g", layer.activations, (layer,), layer.results)
    assert mark_nonnegative(graph) is graph


@pytest.mark.parametrize(
    ("cls", "least"), [*((cls, -(2**15)) for cls in BOUNDED), *((cls, 0) for cls in KEEPING)]
)
def test_results_are_as_claimed(cls: type[Op], least: int) -> None:
    """A `low` bounds every result of its op, and ops that keep the sign make no negative number of others."""
    rng = np.random.default_rng(0)
    for op in cls.examples():
        if {v.dtype for v in (*op.activations, *op.results)} != {DType.INT16}:
            continue
        if least < 0:
            op = replace(op, low=0)  # type: ignore[call-arg]  # every class here has bounds
        elif isinstance(op, Pad) and op.value < 0:
            continue
        data = {v: rng.integers(least, 2**15, v.shape).astype(np.int16) for v in op.activations}
        operands = (v.constant if v.is_constant else data[v] for v in op.operands)
        assert op.reference(Arithmetic.CMSIS_NN, *operands).min(initial=0) >= 0, op


class Net(nn.Module):
    """Convolutions behind an input, a ReLU, a difference, and a ReLU6 that is padded and pooled."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(size, 8, 3, padding=1) for size in (4, 8, 8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second, third, fourth = self.layers
        a = torch.relu(first(x))
        b = torch.nn.functional.relu6(third(a - torch.relu(second(a))))
        return fourth(torch.nn.functional.max_pool2d(b, 2))  # type: ignore[no-any-return]  # of torch


@pytest.mark.qemu
@pytest.mark.parametrize("options", [{}, {"max_ram": "6K"}], ids=["whole", "stripes"])
def test_programs_have_the_bytes_of_the_reference(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 4, 18, 15)
    program = pillion.compile(
        Net().eval(), x, target="cortex-m33", precision="int16", progress=False, **options
    )
    used = [choice.kernel.name for choice in program.lowered.chosen.values()]
    assert "conv2d_winograd_16_dsp" in used
    assert "conv2d_wide_16_dsp" in used
    assert np.array_equal(program.run(x, on="mps2-an505"), program.run(x))
