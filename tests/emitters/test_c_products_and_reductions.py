# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of products of tensors, transposed convolution, resizing, slopes, divisions and
reductions against the reference, byte for byte. All examples of an op are one program, which is compiled
once."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest

from nightly import in_turn, part_of
from pillion.emitters.c.families import div, matmul, prelu, reduce, resize
from pillion.emitters.c.lower import lower
from pillion.emitters.c.portable import transpose_conv
from pillion.emitters.c.project import project_files, write_project
from pillion.emitters.c.strides import broadcast_steps, merge_contiguous_axes
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, Value
from pillion.ir.verify import verify_graph
from pillion.ops import BatchMatmul, Div, Prelu, ReduceMax, ReduceSum, ResizeBilinear
from pillion.ops.example_values import make_op, random_like, value
from pillion.run.executor_list import run_project

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

FAMILIES = (transpose_conv, matmul, div, prelu, reduce, resize)
OPS = [kernel.op for family in FAMILIES for kernel in family.KERNELS]


def all_in_one(ops: list[Op], arithmetic: Arithmetic) -> Graph:
    """A graph of ops that do not depend on each other."""
    renamed = []
    for number, op in enumerate(ops):
        values = dict.fromkeys((*op.operands, *op.results))
        renamed.append(op.substitute({v: dataclasses.replace(v, name=f"n{number}_{v.name}") for v in values}))
    inputs = tuple(dict.fromkeys(v for op in renamed for v in op.activations))
    outputs = tuple(op.results[0] for op in renamed)
    return verify_graph(Graph("examples", inputs, tuple(renamed), outputs, arithmetic))


def fills(v: Value) -> list[Array]:
    """Random levels, both ends, the zero point, and alternating ends."""
    (least, most), dtype = v.dtype.bounds, v.dtype.numpy
    alternating = np.where(np.arange(v.type.elements).reshape(v.shape) % 2, most, least).astype(dtype)
    constant = [np.full(v.shape, level, dtype) for level in (least, most, v.zero_point)]
    return [random_like(v, 1), random_like(v, 2), *constant, alternating]


def assert_same_bytes(ops: list[Op], arithmetic: Arithmetic, folder: Path, on: str = "host") -> None:
    graph = all_in_one(ops, arithmetic)
    write_project(project_files(lower(graph), "cortex-m33"), folder)
    for inputs in zip(*(fills(v) for v in graph.inputs), strict=True):
        answers = run_project(folder, inputs, on).outputs
        for op, wanted, answer in zip(ops, graph.reference(*inputs), answers, strict=True):
            assert np.array_equal(answer, wanted), (
                op,
                answer[answer != wanted][:5],
                wanted[answer != wanted][:5],
            )


@pytest.mark.turns(5)
@pytest.mark.parametrize(("cls", "arithmetic"), in_turn(OPS, list(Arithmetic)), ids=str)
def test_examples_on_this_computer(cls: type[Op], arithmetic: Arithmetic, tmp_path: Path) -> None:
    assert_same_bytes(list(cls.examples()), arithmetic, tmp_path / "project")


@pytest.mark.qemu
@pytest.mark.parametrize("arithmetic", part_of(Arithmetic, 3), ids=lambda a: a.value)
def test_examples_on_a_cortex_m33(arithmetic: Arithmetic, tmp_path: Path) -> None:
    ops = [op for cls in OPS for op in list(cls.examples())[:4]]
    assert_same_bytes(ops, arithmetic, tmp_path / "project", "mps2-an505")


def every_pair(zero_points: tuple[int, int], ratio: float) -> Div:
    a, b = value("a", (256, 1), 0.05, zero_points[0]), value("b", (1, 256), 0.04, zero_points[1])
    return make_op(Div, value("y", (), a.scale / (b.scale * ratio), 3), a=a, b=b)  # type: ignore[return-value]  # make gives what it is asked for


@pytest.mark.parametrize("arithmetic", Arithmetic, ids=lambda a: a.value)
def test_every_quotient(arithmetic: Arithmetic, tmp_path: Path) -> None:
    points = ((0, 0), (-128, 127), (127, -128), (5, -3))
    ops = [
        every_pair(zero_points, ratio)
        for zero_points in points
        for ratio in (0.01, 0.5, 1.0, 3.3, 64.0, 2.0**12)
    ]
    graph = all_in_one(ops, arithmetic)
    write_project(project_files(lower(graph), "cortex-m33"), tmp_path / "project")
    every = np.arange(-128, 128).astype(np.int8)
    inputs = [every.reshape(v.shape) for v in graph.inputs]
    answers = run_project(tmp_path / "project", inputs).outputs
    assert all(np.array_equal(*pair) for pair in zip(graph.reference(*inputs), answers, strict=True))


def test_attention_of_primes(tmp_path: Path) -> None:
    ops = []
    for seed, (adj_x, adj_y) in enumerate(((False, True), (True, False), (True, True), (False, False))):
        a = value("a", (3, 11, 7) if adj_x else (3, 7, 11), 0.05, (-128, 127, 0, 9)[seed])
        b = value("b", (3, 5, 11) if adj_y else (3, 11, 5), 0.04, (127, 3, -128, 0)[seed])
        ops.append(make_op(BatchMatmul, value("y", (), 1.5, -7), a=a, b=b, adj_x=adj_x, adj_y=adj_y))
    assert_same_bytes(ops, Arithmetic.CMSIS_NN, tmp_path / "project")


def test_reductions_that_alternate_axes(tmp_path: Path) -> None:
    x = value("x", (2, 3, 5, 2, 3, 2), 0.04, -9)
    kept = {"x": x, "axes": (0, 2, 4)}
    ops = [
        make_op(ReduceSum, value("y", (), 0.5, 7), **kept),
        make_op(ReduceMax, value("y", (), 0.04, -9), **kept, keepdims=True),
    ]
    assert_same_bytes(ops, Arithmetic.CMSIS_NN, tmp_path / "project")


def test_slopes_of_each_axis_and_of_one_index(tmp_path: Path) -> None:
    x, y = value("x", (2, 3, 5), 0.06, 100), value("y", (), 0.05, -3)
    shapes = ((2, 1, 1), (3, 1), (5,), (1, 1, 1), ())
    ops = [make_op(Prelu, y, x=x, slope=value("slope", shape, 0.01, 4)) for shape in shapes]
    assert_same_bytes(ops, Arithmetic.CMSIS_NN, tmp_path / "project")


def test_bilinear_at_both_ends_of_the_range(tmp_path: Path) -> None:
    x = value("x", (1, 2, 2, 1), 0.1, 0)
    ops = [
        make_op(ResizeBilinear, value("y", (), 0.1, 0), x=x, size=(n, n + 3), half_pixel=True)
        for n in (1, 2, 7, 31)
    ]
    assert_same_bytes(ops, Arithmetic.CMSIS_NN, tmp_path / "project")


def test_nested_loops_are_joined() -> None:
    assert merge_contiguous_axes((2, 1, 3, 5), [(15, 15, 5, 1)]) == ((30,), [(1,)])
    assert merge_contiguous_axes((2, 3, 5), [(15, 5, 1), broadcast_steps((3, 1), (2, 3, 5))]) == (
        (2, 3, 5),
        [(15, 5, 1), (0, 1, 0)],
    )
    assert merge_contiguous_axes((4, 3), [(0, 0), (3, 1)]) == ((12,), [(0,), (1,)])
