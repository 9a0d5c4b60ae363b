# SPDX-License-Identifier: Apache-2.0
"""A mean, a sum, a maximum or a minimum over all rows as the end of a stripe: what it makes of the rows so far is kept while they come, a few at
a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import pillion
from fuzz.properties import board_is_the_reference, host_is_the_reference, samples
from nightly import in_turn
from pillion.compile_options import Memory
from pillion.emitters.c.lower import lower
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, TensorType, Value
from pillion.ir.verify import verify_graph
from pillion.ops import Clamp, Mean, ReduceMax, ReduceMin, ReduceSum, split_into_tiles
from pillion.program import Program
from pillion.tiling.stripe import Stripe, striped

SHAPES = (
    ((1, 7, 5, 16), (1, 2), True),
    ((2, 9, 3, 17), (1, 2), False),
    ((1, 13, 1, 1), (2, 1), False),
    ((3, 4, 2, 7), (1,), True),
    ((1, 5, 3, 33), (3, 1, 2), False),
    ((1, 3, 300, 8), (1, 2), False),
    ((2, 521, 1, 3), (1,), False),
    ((1, 6, 4, 15), (1, 2), True),
)
"""Images, the axes that go, and whether they leave axes of size 1: around whole vectors of channels, more elements than 16 bits hold sums of."""
BOARDS = ("cortex-m33", "cortex-m55")


def means(
    arithmetic: Arithmetic,
    shapes: tuple[tuple[tuple[int, ...], tuple[int, ...], bool], ...],
    cls: type[Mean | ReduceSum] = Mean,
) -> Graph:
    """A program of a clamp and a mean or sum for each shape, each pair a region of its own."""
    ops: list[Op] = []
    inputs = []
    for i, (shape, axes, keepdims) in enumerate(shapes):
        quant = PerTensor(0.05, (-128, 127, 0, 3)[i % 4])
        x = Value(f"x{i}", TensorType(shape, DType.INT8, quant))
        c = Value(f"c{i}", x.type)
        scale, zero = (0.05, 0.011, 0.3)[i % 3], (5, -128, 127)[i % 3]
        # That of a sum is as much larger as sums spread: now and then less than that of its operand, then it is moved to the left.
        scale = scale if cls is Mean or i == 2 else scale * float(np.sqrt(math.prod(shape[a] for a in axes)))
        draft = cls(x=c, y=c, axes=axes, keepdims=keepdims)
        y = Value(f"y{i}", TensorType(draft.infer().shape, DType.INT8, PerTensor(scale, zero)))
        ops += [Clamp(x=x, y=c, low=-120, high=127), cls(x=c, y=y, axes=axes, keepdims=keepdims)]
        inputs.append(x)
    outputs = tuple(op.results[0] for op in ops[1::2])
    return verify_graph(Graph("means", tuple(inputs), tuple(ops), outputs, arithmetic))


def extremes() -> Graph:
    """A program of a clamp and a maximum or minimum for each shape, each pair a region of its own."""
    ops: list[Op] = []
    inputs = []
    for i, (shape, axes, keepdims) in enumerate(SHAPES * 2):
        cls = ReduceMax if i < len(SHAPES) else ReduceMin
        x = Value(f"x{i}", TensorType(shape, DType.INT8, PerTensor(0.05, (-128, 127, 0, 3)[i % 4])))
        c = Value(f"c{i}", x.type)
        draft = cls(x=c, y=c, axes=axes, keepdims=keepdims)
        y = Value(f"y{i}", TensorType(draft.infer().shape, DType.INT8, x.type.quant))
        ops += [Clamp(x=x, y=c, low=-128, high=126), cls(x=c, y=y, axes=axes, keepdims=keepdims)]
        inputs.append(x)
    outputs = tuple(op.results[0] for op in ops[1::2])
    return verify_graph(Graph("extremes", tuple(inputs), tuple(ops), outputs, Arithmetic.CMSIS_NN))


@pytest.mark.turns(2)
@pytest.mark.parametrize(("rows", "grain"), [(1, 0), (2, 1), (600, 0)])
def test_extremes_are_the_same_however_rows_come(rows: int, grain: int) -> None:
    host_is_the_reference(in_pairs(extremes(), rows, grain))


@pytest.mark.turns(2)
@pytest.mark.qemu
@pytest.mark.slow
@pytest.mark.parametrize("target", BOARDS)
def test_boards_compare_the_same(target: str) -> None:
    board_is_the_reference(in_pairs(extremes(), 2), target)


class Folded(nn.Module):
    """A picture becomes the largest of what it shows, or all of it together."""

    def __init__(self, fold: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.fold = fold
        self.one, self.two = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 21, 3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fold(self.two(self.one(x).relu()), (2, 3))


@pytest.mark.parametrize(("fold", "kind"), [(torch.amax, "reduce_max"), (torch.sum, "reduce_sum")])
def test_global_reductions_end_a_stripe(fold: Callable[..., torch.Tensor], kind: str) -> None:
    torch.manual_seed(4)
    plain = pillion.compile(
        Folded(fold).eval(),
        torch.randn(1, 3, 45, 31),
        target="cortex-m33",
        io_dtype="int8",
        io_layout="nhwc",
        extra=0,
        progress=False,
    )
    program = plain.within(Memory(rows_in=True, extra="100%"))
    (stripe,) = program.stripes
    assert program.graph.ops[stripe.end - 1].kind == kind
    assert program.memory.arena_bytes < plain.memory.arena_bytes // 4
    x = np.random.default_rng(2).integers(-128, 128, plain.graph.inputs[0].shape).astype(np.int8)
    assert np.array_equal(program.run(x, on="host")[0], plain.graph.reference(x)[0])


def in_pairs(graph: Graph, rows: int, grain: int = 0) -> Graph:
    return verify_graph(striped(graph, [Stripe(i, i + 2, rows, grain) for i in range(0, len(graph.ops), 2)]))


@pytest.mark.turns(6)
@pytest.mark.parametrize(
    ("cls", "arithmetic"),
    [(Mean, Arithmetic.CMSIS_NN), (Mean, Arithmetic.TFLITE), *((ReduceSum, one) for one in Arithmetic)],
)
@pytest.mark.parametrize(("rows", "grain"), [(1, 0), (2, 1), (600, 0)])
def test_sums_are_the_same_however_rows_come(
    cls: type[Mean | ReduceSum], arithmetic: Arithmetic, rows: int, grain: int
) -> None:
    graph = means(arithmetic, SHAPES, cls)
    in_rows = in_pairs(graph, rows, grain)
    for given in samples(graph, 2):
        for one, other in zip(graph.reference(*given), in_rows.reference(*given), strict=True):
            assert np.array_equal(one, other)
    host_is_the_reference(in_rows)


@pytest.mark.turns(3)
@pytest.mark.qemu
@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "cls", "target"),
    [(*row, target) for row, target in in_turn([(1, Mean), (3, Mean), (2, ReduceSum)], list(BOARDS))],
)
def test_boards_add_up_the_same(target: str, rows: int, cls: type[Mean | ReduceSum]) -> None:
    board_is_the_reference(in_pairs(means(Arithmetic.CMSIS_NN, SHAPES, cls), rows), target)


def test_only_rows_before_all_others_are_taken_so() -> None:
    """A mean over channels makes its rows one by one; one over images and rows, or over rows and channels alone, needs all."""
    for axes, kept in (((3,), 0), ((0, 1), 0), ((1, 3), 0), ((1,), 4 * 5 * 6), ((1, 2), 4 * 6)):
        for cls in (Mean, ReduceSum):
            graph = means(Arithmetic.CMSIS_NN, (((2, 4, 5, 6), axes, True),), cls)
            assert graph.ops[1].folded_bytes == kept, axes


def test_tiled_reductions_end_a_stripe() -> None:
    graph = means(Arithmetic.CMSIS_NN, (((1, 8, 5, 6), (1, 2), True),))
    end = Value("end", graph.outputs[0].type)
    longer = graph.replace(ops=(*graph.ops, Clamp(x=graph.outputs[0], y=end)), outputs=(end,))
    with pytest.raises(PillionError, match="leaves the region"):
        split_into_tiles(longer, 0, 3, 1).check()


class IntegerArithmetic(nn.Module):
    """A picture becomes numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 21, 3, stride=2, padding=1)
        self.head = nn.Linear(21, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.two(self.one(x).relu()).relu()
        return self.head(nn.functional.adaptive_avg_pool2d(y, 1).flatten(1))


@pytest.fixture(scope="module")
def whole() -> Program:
    torch.manual_seed(4)
    return pillion.compile(
        IntegerArithmetic().eval(),
        torch.randn(1, 3, 45, 31),
        target="cortex-m55",
        io_dtype="int8",
        io_layout="nhwc",
        extra=0,
        progress=False,
    )


def test_a_whole_net_is_one_stripe_up_to_its_classifier(whole: Program) -> None:
    program = whole.within(Memory(rows_in=True, extra="100%"))
    (stripe,) = program.stripes
    assert isinstance(program.graph.ops[stripe.end - 1], Mean)
    x = np.random.default_rng(2).integers(-128, 128, whole.graph.inputs[0].shape).astype(np.int8)
    assert np.array_equal(program.run(x, on="host")[0], whole.graph.reference(x)[0])
    ends_before = replace(whole, memory_budget=(replace(stripe, end=stripe.end - 1),))
    assert program.memory.arena_bytes < ends_before.memory.arena_bytes - 5000


def test_partial_results_have_a_place(whole: Program) -> None:
    """The sums have a place of their own from the first row to the last: no buffer of the stripe lies there meanwhile."""
    program = whole.within(Memory(rows_in=True, extra="100%"))
    memory = program.memory
    region = lower(striped(whole.graph, program.stripes), whole.target.isa).graph.ops[0]
    mean = region.body.ops[-1]  # type: ignore[attr-defined]  # a region
    place = memory.scratch_offsets[mean]
    inner = [op.results[0] for op in region.body.ops[:-1]]  # type: ignore[attr-defined]  # a region
    for value in inner:
        held = next(r for r in memory.residents if value in r.values)
        assert held.offset + held.bytes <= place or place + mean.folded_bytes <= held.offset
