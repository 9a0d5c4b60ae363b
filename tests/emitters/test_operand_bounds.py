# SPDX-License-Identifier: Apache-2.0
"""Convolutions know the bounds of their 16-bit images, as far as these follow from the ops before; what follows from that is true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import pillion
from pillion.emitters.c.operand_bounds import BOUNDED, KEEPING, mark_bounds
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType, Pair, PerTensor, TensorType, Value, constant_value
from pillion.ir.verify import verify_graph
from pillion.ops import ALL_OPS, AvgPool2d, Clamp, Concat, Conv2d, Flip, MaxPool2d, Pad, Slice, Sub
from pillion.ops.example_values import make_op

BOUNDS = {"low": -(2**15), "high": 2**15 - 1}
IMAGE = (1, 6, 6, 4)
POOL = {"kernel": (2, 2), "padding": (1, 0, 0, 1)}


def tensor(name: str, shape: tuple[int, ...] = ()) -> Value:
    return Value(name, TensorType(shape, DType.INT16, PerTensor(0.01)))


def clamp(x: Value, low: int = -9, high: int = 700) -> Op:
    return make_op(Clamp, tensor("r"), x=x, low=low, high=high)


def conv(x: Value, name: str = "z", low: int = -(2**15)) -> Any:
    weights = constant_value(f"{name}_w", np.ones((4, 3, 3, x.shape[3]), np.int8), PerTensor(0.01))
    bias = constant_value(f"{name}_b", np.zeros(4, np.int32))
    return make_op(Conv2d, tensor(name), x=x, weights=weights, bias=bias, **(BOUNDS | {"low": low}))


def bounds_of(*ops: Op) -> list[Pair | None]:
    """The bounds of the images of the convolutions in a graph of one input."""
    graph = verify_graph(Graph("g", (tensor_of_input(ops),), ops, ops[-1].results))
    return [op.x_bounds for op in mark_bounds(graph).ops if isinstance(op, Conv2d)]


def tensor_of_input(ops: tuple[Op, ...]) -> Value:
    return ops[0].activations[0]


OF_CLAMP = (-9, 700)
CARRIED: dict[str, tuple[Pair | None, Callable[[Value], Op]]] = {
    "part": (
        OF_CLAMP,
        lambda r: make_op(Slice, tensor("y", (1, 5, 6, 4)), x=r, begin=(0, 1, 0, 0), step=(1, 1, 1, 1)),
    ),
    "maximum": (OF_CLAMP, lambda r: make_op(MaxPool2d, tensor("y"), x=r, **POOL, **BOUNDS)),
    "maximum with bounds": (
        (0, 600),
        lambda r: make_op(MaxPool2d, tensor("y"), x=r, **POOL, low=0, high=600),
    ),
    "average": (OF_CLAMP, lambda r: make_op(AvgPool2d, tensor("y"), x=r, **POOL, **BOUNDS)),
    "concatenation": (OF_CLAMP, lambda r: make_op(Concat, tensor("y"), xs=(r, r), axis=3)),
    "order": (OF_CLAMP, lambda r: make_op(Flip, tensor("y"), x=r, axes=(1,))),
    "padding": (OF_CLAMP, lambda r: pad(r, 0)),
    "smaller padding": ((-10, 700), lambda r: pad(r, -10)),
    "larger padding": ((-9, 701), lambda r: pad(r, 701)),
    "difference": (None, lambda r: make_op(Sub, tensor("y"), a=r, b=r, **BOUNDS)),
}


def pad(x: Value, value: int) -> Op:
    return make_op(Pad, tensor("y"), x=x, before=(0, 1, 1, 0), after=(0, 1, 1, 0), value=value)


@pytest.mark.parametrize("name", CARRIED)
def test_ops_that_keep_bounds_are_seen_through(name: str) -> None:
    expected, make = CARRIED[name]
    x = tensor("x", IMAGE)
    first = clamp(x)
    between = make(first.results[0])
    assert bounds_of(first, between, conv(between.results[0])) == [expected]
    unbounded = make(x)
    own = (unbounded.low, unbounded.high) if name == "maximum with bounds" else None  # type: ignore[attr-defined]
    assert bounds_of(unbounded, conv(unbounded.results[0])) == [own]


def test_joined_tensors_have_the_bounds_of_both() -> None:
    x = tensor("x", IMAGE)
    first, second = clamp(x), replace(clamp(x, 5, 900), y=tensor("s", IMAGE))  # type: ignore[call-arg]
    both = make_op(Concat, tensor("y"), xs=(first.results[0], second.results[0]), axis=3)
    assert bounds_of(first, second, both, conv(both.results[0])) == [(-9, 900)]
    beside = make_op(Concat, tensor("y"), xs=(first.results[0], x), axis=3)
    assert bounds_of(first, beside, conv(beside.results[0])) == [None]


def test_a_mean_with_padding_may_be_nearer_to_zero() -> None:
    first = clamp(tensor("x", IMAGE), 5, 900)
    mean = make_op(AvgPool2d, tensor("y"), x=first.results[0], **POOL, **BOUNDS)
    assert bounds_of(first, mean, conv(mean.results[0])) == [(0, 900)]


def test_layers_with_bounds_are_producers_and_inputs_are_not() -> None:
    first = conv(tensor("x", IMAGE), "y", low=0)
    assert bounds_of(first, conv(first.y)) == [None, (0, 2**15 - 1)]
    unbounded = replace(first, low=-(2**15))
    assert bounds_of(unbounded, conv(unbounded.y)) == [None, None]


def test_moved_floats_have_no_bounds() -> None:
    x = Value("x", TensorType(IMAGE, DType.FLOAT32))
    moved = make_op(Flip, Value("y", TensorType(IMAGE, DType.FLOAT32)), x=x, axes=(1,))
    graph = Graph("g", (x,), (moved,), moved.results)
    assert mark_bounds(graph) is graph


def test_a_graph_without_bounds_stays_unchanged() -> None:
    layer = conv(tensor("x", IMAGE))
    graph = Graph("g", layer.activations, (layer,), layer.results)
    assert mark_bounds(graph) is graph


@pytest.mark.parametrize(
    ("cls", "is_bounded"),
    [(cls, kinds is BOUNDED) for kinds in (BOUNDED, KEEPING) for cls in ALL_OPS if issubclass(cls, kinds)],
)
def test_results_are_as_claimed(cls: type[Op], is_bounded: bool) -> None:
    """Every result of an op lies between its bounds, and ops that keep bounds leave none of those of their operands."""
    rng = np.random.default_rng(0)
    low, high = -300, 800
    for op in cls.examples():
        if {v.dtype for v in (*op.activations, *op.results)} != {DType.INT16}:
            continue
        least, most = (-(2**15), 2**15 - 1) if is_bounded else (low, high)
        if is_bounded:
            op = replace(op, low=low, high=high)  # type: ignore[call-arg]  # every class here has bounds
        elif isinstance(op, Pad) and not low <= op.value <= high:
            continue
        data = {v: rng.integers(least, most + 1, v.shape).astype(np.int16) for v in op.activations}
        operands = (v.constant if v.is_constant else data[v] for v in op.operands)
        results = op.reference(Arithmetic.CMSIS_NN, *operands)
        assert low <= results.min(initial=0), op
        assert results.max(initial=0) <= high, op


class Net(nn.Module):
    """Convolutions behind an input, a ReLU, a difference, and a ReLU6 that is padded and pooled."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(size, 16, 3, padding=1) for size in (8, 16, 16, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second, third, fourth = self.layers
        a = torch.relu(first(x))
        b = torch.nn.functional.relu6(third(a - torch.relu(second(a))))
        return fourth(torch.nn.functional.max_pool2d(b, 2))  # type: ignore[no-any-return]  # of torch


@pytest.mark.qemu
@pytest.mark.parametrize("options", [{}, {"max_ram": "18K"}], ids=["whole", "stripes"])
@pytest.mark.parametrize(
    ("target", "board", "kernel", "layers"),
    [("cortex-m33", "mps2-an505", "dsp", 3), ("cortex-m55", "mps3-an547", "mve", 2)],
    ids=["dsp", "mve"],
)
def test_programs_have_the_bytes_of_the_reference(
    target: str, board: str, kernel: str, layers: int, options: dict[str, Any]
) -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 8, 18, 15)
    program = pillion.compile(Net().eval(), x, target=target, precision="int16", progress=False, **options)
    used = [choice.kernel.name for choice in program.lowered.chosen.values()]
    assert used.count(f"conv2d_winograd_16_{kernel}") >= layers
    images = [op.x_bounds for op in program.graph.ops if isinstance(op, Conv2d)]
    assert images.count(None) == 1  # that of the input
    assert np.array_equal(program.run(x, on=board), program.run(x))
