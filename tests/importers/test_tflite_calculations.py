# SPDX-License-Identifier: Apache-2.0
"""Operators on whole numbers, places that are known, and what is computed from constants: LiteRT answers what the graph answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from net_file import NetFile, answers, litert
from tflite_file import File, same_as_litert

from pillion.emitters.tflite import emit
from pillion.errors import PillionError
from pillion.importers.tflite import read
from pillion.ir.graph import Graph
from pillion.ir.types import Array
from pillion.schemas import tflite
from pillion.schemas.tflite import ElementType

WORDS: dict[str, Any] = {"type": ElementType.INT32, "quantization": None}
BYTES: dict[str, Any] = {"type": ElementType.INT8}
ENDS: dict[str, Any] = {"type": ElementType.UINT8, "zero": 255}
BOTH = pytest.mark.parametrize("kind", [BYTES, ENDS], ids=["int8", "uint8"])
RUNS = 20


def same(raw: bytes, below: int = 2**31) -> Graph:
    """The graph, after it has answered like LiteRT, as the file and as what is written anew, on many inputs."""
    graph, rng = read(raw), np.random.default_rng(len(raw))
    theirs, again = litert(raw), litert(emit(graph))
    for number in range(RUNS):
        inputs = [drawn(rng, v.dtype.numpy, v.shape, below if number % 2 else 9) for v in graph.inputs]
        wanted = [y.tolist() for y in answers(theirs, inputs)]
        assert [y.tolist() for y in graph.reference(*inputs)] == wanted
        assert [y.tolist() for y in answers(again, inputs)] == wanted
    return graph


def drawn(rng: np.random.Generator, dtype: Any, shape: tuple[int, ...], below: int) -> Array:
    if dtype == np.int32:
        return np.asarray(rng.integers(-below, below, shape), np.int32)
    return np.asarray(rng.integers(0, 256, shape), np.uint8).view(dtype)


SHAPES = [(1,), (7,), (3, 16), (2, 5, 3), (1, 33, 2)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_cumulative_sums(shape: tuple[int, ...], reverse: bool, exclusive: bool) -> None:
    axis = len(shape) // 2
    file = File("CUMSUM", tflite.CumsumOptions(exclusive=exclusive, reverse=reverse))
    file.input(*shape, **WORDS).constant(np.array(axis)).output(*shape, **WORDS)
    graph = same(file.bytes())
    assert len(graph.ops) < 30


@pytest.mark.parametrize("code", ["SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN"])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(("shape", "axes"), [((7,), [0]), ((3, 5), [-1]), ((2, 6, 3), [0, 2]), ((4, 1), [1])])
def test_reductions(code: str, keepdims: bool, shape: tuple[int, ...], axes: list[int]) -> None:
    gone = {axis % len(shape) for axis in axes}
    made = [1 if i in gone else d for i, d in enumerate(shape) if keepdims or i not in gone]
    file = File(code, tflite.ReducerOptions(keep_dims=keepdims)).input(*shape, **WORDS)
    same(file.constant(axes).output(*made, **WORDS).bytes())


@pytest.mark.parametrize("divisor", [1, 7, 666, 2**31 - 1])
def test_quotients_round_towards_zero(divisor: int) -> None:
    file = File("DIV", tflite.DivOptions()).input(3, 5, **WORDS).constant(np.array([divisor]))
    same(file.output(3, 5, **WORDS).bytes())


def test_sums_of_many() -> None:
    file = File("ADD_N")
    for _ in range(4):
        file.input(3, 5, **WORDS)
    same(file.output(3, 5, **WORDS).bytes(), 2**20)


@pytest.mark.parametrize("code", ["SIGN", "ABS", "NEG"])
def test_signs(code: str) -> None:
    same(File(code).input(3, 5, **WORDS).output(3, 5, **WORDS).bytes(), 2**30)


def test_two_at_a_time() -> None:
    same(
        File("SQUARED_DIFFERENCE").input(3, 5, **WORDS).input(1, 5, **WORDS).output(3, 5, **WORDS).bytes(),
        999,
    )
    same(File("BITWISE_XOR").input(3, 5, **WORDS).input(3, 5, **WORDS).output(3, 5, **WORDS).bytes())
    for places in (np.arange(15).reshape(3, 5) * 2, [-3, 0, 31, 32, 99]):
        shifted = File("RIGHT_SHIFT").input(3, 5, **WORDS).constant(places)
        same(shifted.output(3, 5, **WORDS).bytes())
    moved = File("RIGHT_SHIFT").input(3, 5, **WORDS).input(5, **WORDS)
    for _ in range(RUNS):
        same_as_litert(moved.output(3, 5, **WORDS).bytes() if not moved.outputs else moved.bytes())


@BOTH
def test_slices_at_places(kind: dict[str, Any]) -> None:
    file = File("SCATTER_ND").constant([[4], [0], [2]]).input(3, 2, **kind).constant([6, 2])
    same(file.output(6, 2, **kind).bytes())
    deep = File("SCATTER_ND").constant([[[1, 2], [0, 0]], [[2, 0], [1, 1]]]).input(2, 2, 5, **kind)
    same(deep.constant([3, 4, 5]).output(3, 4, 5, **kind).bytes())


def test_whole_numbers_at_places() -> None:
    file = File("SCATTER_ND").constant([[4], [0], [2]]).input(3, **WORDS).constant([6])
    same(file.output(6, **WORDS).bytes())


@pytest.mark.parametrize(("time", "batch"), [(1, 0), (0, 1), (2, 0), (1, 2)])
def test_sequences_in_reverse(time: int, batch: int) -> None:
    shape = (3, 4, 5, 2)
    lengths = np.random.default_rng(time).integers(1, shape[time] + 1, shape[batch])
    for kind in (ENDS, WORDS):
        file = File("REVERSE_SEQUENCE", tflite.ReverseSequenceOptions(seq_dim=time, batch_dim=batch))
        same(file.input(*shape, **kind).constant(lengths).output(*shape, **kind).bytes())


@pytest.mark.parametrize("begin", [[0, 0], [1, 2], [-3, 9]])
def test_parts_that_are_put_into_a_whole(begin: list[int]) -> None:
    for kind in (BYTES, WORDS):
        file = File("DYNAMIC_UPDATE_SLICE").input(4, 7, **kind).input(2, 5, **kind).constant(begin)
        same(file.output(4, 7, **kind).bytes())


def test_shapes_and_sizes_that_follow_from_others() -> None:
    """SHAPE, a slice of it, a product, and what is filled, tiled and ranged by it."""
    net = NetFile()
    x = net.input(2, 3, 5)
    word = {"quantization": None, "type": ElementType.INT32}
    shape = net.add("SHAPE", [x], net.tensor(3, **word), tflite.ShapeOptions(out_type=ElementType.INT32))
    ends = [net.constant(np.array([n], np.int32)) for n in (1, 3, 1)]
    inner = net.add("STRIDED_SLICE", [shape, *ends], net.tensor(2, **word), tflite.StridedSliceOptions())
    axis = net.constant(np.array([0], np.int32))
    count = net.add("REDUCE_PROD", [inner, axis], net.tensor(**word), tflite.ReducerOptions())
    zero, one = (net.constant(np.array(n, np.int32)) for n in (0, 1))
    places = net.add("RANGE", [zero, count, one], net.tensor(15, **word))
    flat = net.constant(np.array([2, 15], np.int32))
    wide = net.add("RESHAPE", [x, flat], net.tensor(2, 15))
    options = tflite.GatherOptions(axis=1)
    back = net.add("REVERSE_V2", [places, axis], net.tensor(15, **word))
    taken = net.add("GATHER", [wide, back], net.tensor(2, 15), options)
    net.graph.outputs = [taken]
    graph = same(net.bytes())
    assert {op.kind for op in graph.ops} <= {"reshape", "gather"}


def test_broadcast_shapes_are_constants() -> None:
    (y,) = read(
        File("BROADCAST_ARGS").constant([3, 1]).constant([2, 1, 5]).output(3, **WORDS).bytes()
    ).outputs
    assert y.constant.tolist() == [2, 3, 5]


UNSIGNED: dict[str, File] = {
    "SPACE_TO_DEPTH": File("SPACE_TO_DEPTH", tflite.SpaceToDepthOptions(block_size=2))
    .input(2, 6, 4, 5, **ENDS)
    .output(2, 3, 2, 20, **ENDS),
    "DEPTH_TO_SPACE": File("DEPTH_TO_SPACE", tflite.DepthToSpaceOptions(block_size=2))
    .input(2, 3, 2, 20, **ENDS)
    .output(2, 6, 4, 5, **ENDS),
    "SPACE_TO_BATCH_ND": File("SPACE_TO_BATCH_ND")
    .input(2, 6, 3, 5, **ENDS)
    .constant([3, 2])
    .constant([[1, 2], [0, 3]])
    .output(12, 3, 3, 5, **ENDS),
    "BATCH_TO_SPACE_ND": File("BATCH_TO_SPACE_ND")
    .input(12, 3, 3, 5, **ENDS)
    .constant([3, 2])
    .constant([[1, 2], [0, 3]])
    .output(2, 6, 3, 5, **ENDS),
    "MIRROR_PAD": File("MIRROR_PAD", tflite.MirrorPadOptions())
    .input(4, 5, **ENDS)
    .constant([[1, 2], [2, 3]])
    .output(7, 10, **ENDS),
    "GATHER_ND": File("GATHER_ND").input(3, 4, 5, **ENDS).constant([[1, 2], [0, 3]]).output(2, 5, **ENDS),
    "TOPK_V2": File("TOPK_V2")
    .input(3, 7, **ENDS)
    .constant(np.array(3))
    .output(3, 3, **ENDS)
    .output(3, 3, **WORDS),
}


@pytest.mark.parametrize("code", UNSIGNED)
def test_moves_of_uint8(code: str) -> None:
    raw = UNSIGNED[code].bytes()
    for _ in range(RUNS):
        same_as_litert(raw)


@pytest.mark.parametrize("code", ["LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL"])
@pytest.mark.parametrize("zeros", [(255, 255), (0, 100), (3, 250)])
def test_relations_of_uint8(code: str, zeros: tuple[int, int]) -> None:
    first, second = ({"type": ElementType.UINT8, "zero": zero} for zero in zeros)
    file = File(code).input(3, 40, **first).input(40, scale=0.03 if zeros[0] else 0.1, **second)
    raw = file.output(3, 40, type=ElementType.BOOL, quantization=None).bytes()
    for _ in range(RUNS):
        same_as_litert(raw)


LIES: dict[str, File] = {
    "two axes": File("CUMSUM").input(3, **WORDS).constant([0, 0]).output(3, **WORDS),
    "a sum of bytes": File("CUMSUM").input(3).constant([0]).output(3),
    "more numbers": File("RANGE").constant([0]).constant([9]).constant([1]).output(8, **WORDS),
    "no step": File("RANGE").constant([0]).constant([9]).constant([0]).output(9, **WORDS),
    "endless": File("RANGE").constant([0]).constant([2**31 - 1]).constant([1]).output(2**31 - 1, **WORDS),
    "a place twice": File("SCATTER_ND").constant([[1], [1]]).input(2).constant([3]).output(3),
    "a place beyond": File("SCATTER_ND").constant([[3]]).input(1).constant([3]).output(3),
    "too long": File("REVERSE_SEQUENCE", tflite.ReverseSequenceOptions(seq_dim=1))
    .input(2, 3, **WORDS)
    .constant([1, 4])
    .output(2, 3, **WORDS),
    "a part too large": File("DYNAMIC_UPDATE_SLICE").input(3).input(4).constant([0]).output(3),
    "shapes that do not fit": File("BROADCAST_ARGS").constant([3]).constant([2]).output(1, **WORDS),
    "another shape": File("REDUCE_PROD", tflite.ReducerOptions())
    .input(3, 4, **WORDS)
    .constant([1])
    .output(4, **WORDS),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_refused(lie: str) -> None:
    with pytest.raises(PillionError) as caught:
        read(LIES[lie].bytes())
    assert caught.value.rule
    assert caught.value.help
