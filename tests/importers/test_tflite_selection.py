# SPDX-License-Identifier: Apache-2.0
"""Comparisons, choices and what is looked up by numbers as other programs write them: LiteRT answers what the graph answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tflite_file import RNG, File, same_as_litert

from pillion.errors import PillionError
from pillion.importers.tflite import read
from pillion.ops import ArgMax, Gather
from pillion.schemas import tflite
from pillion.schemas.tflite import ElementType

FLAGS: dict[str, Any] = {"type": ElementType.BOOL, "quantization": None}
WORDS: dict[str, Any] = {"type": ElementType.INT32, "quantization": None}
LONG: dict[str, Any] = {"type": ElementType.INT64, "quantization": None}
QUANT = tflite.Quantization(scale=[0.1], zero_point=[3])


def int8(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.integers(-128, 127, shape).astype(np.int8)


@pytest.mark.parametrize("kind", [WORDS, LONG], ids=["int32", "int64"])
@pytest.mark.parametrize(("axis", "batch"), [(0, 0), (1, 0), (-1, 0), (1, 1), (2, 1)])
def test_gather(axis: int, batch: int, kind: dict[str, Any]) -> None:
    shape, numbers = (5, 6, 7), (5, 2) if batch else (2, 3)
    out = (*shape[: axis % 3], *numbers[batch:], *shape[axis % 3 + 1 :])
    file = (
        File("GATHER", tflite.GatherOptions(axis=axis, batch_dims=batch))
        .input(*shape)
        .input(*numbers, **kind)
    )
    (gather,) = same_as_litert(file.output(*out).bytes(), below=5).ops
    assert isinstance(gather, Gather)


def test_gather_of_constants() -> None:
    file = File("GATHER", tflite.GatherOptions(axis=1)).input(2, 7, 3).constant([6, 0, 0, 3])
    assert len(same_as_litert(file.output(2, 4, 3).bytes()).ops) == 1
    table = File("GATHER", tflite.GatherOptions()).constant(int8(9, 4), ElementType.INT8, quantization=QUANT)
    same_as_litert(table.input(3, **WORDS).output(3, 4).bytes(), below=9)


def test_a_constant_number_that_no_slice_has_is_refused() -> None:
    file = File("GATHER", tflite.GatherOptions(axis=1)).input(2, 7, 3).constant([7])
    with pytest.raises(PillionError, match="numbers of slices are from 0 to 6"):
        read(file.output(2, 1, 3).bytes())


def test_embedding_lookup() -> None:
    file = (
        File("EMBEDDING_LOOKUP").input(5, **WORDS).constant(int8(9, 4), ElementType.INT8, quantization=QUANT)
    )
    same_as_litert(file.output(5, 4).bytes(), below=9)


@pytest.mark.parametrize("code", ["ARG_MAX", "ARG_MIN"])
@pytest.mark.parametrize("kind", [WORDS, LONG], ids=["int32", "int64"])
@pytest.mark.parametrize("axis", [1, -1, 0])
def test_places(code: str, kind: dict[str, Any], axis: int) -> None:
    options = (tflite.ArgMaxOptions if code == "ARG_MAX" else tflite.ArgMinOptions)(output_type=kind["type"])
    shape = [2, 40, 3]
    file = File(code, options).input(*shape).constant(np.array(axis))
    del shape[axis]
    (op,) = same_as_litert(file.output(*shape, **kind).bytes()).ops
    assert isinstance(op, ArgMax) == (code == "ARG_MAX")


RELATIONS = ("LESS", "LESS_EQUAL", "EQUAL", "NOT_EQUAL", "GREATER_EQUAL", "GREATER")


@pytest.mark.parametrize("code", RELATIONS)
def test_relations(code: str) -> None:
    same_as_litert(File(code).input(3, 40).input(40, scale=0.07, zero=-9).output(3, 40, **FLAGS).bytes())
    same_as_litert(
        File(code).input(3, 40, **WORDS).constant(np.array(2)).output(3, 40, **FLAGS).bytes(), below=4
    )


@pytest.mark.parametrize("code", ["EQUAL", "NOT_EQUAL", "LOGICAL_AND", "LOGICAL_OR"])
def test_booleans(code: str) -> None:
    same_as_litert(File(code).input(2, 9, **FLAGS).input(2, 9, **FLAGS).output(2, 9, **FLAGS).bytes())


def test_not() -> None:
    same_as_litert(File("LOGICAL_NOT").input(2, 9, **FLAGS).output(2, 9, **FLAGS).bytes())


@pytest.mark.parametrize("code", ["REDUCE_ANY", "REDUCE_ALL"])
@pytest.mark.parametrize("keep", [True, False])
def test_any_and_all(code: str, keep: bool) -> None:
    file = File(code, tflite.ReducerOptions(keep_dims=keep)).input(40, 2, **FLAGS).constant([-1])
    same_as_litert(file.output(*((40, 1) if keep else (40,)), **FLAGS).bytes())


@pytest.mark.parametrize("code", ["SELECT", "SELECT_V2"])
def test_select(code: str) -> None:
    same_as_litert(File(code).input(2, 9, **FLAGS).input(2, 9).input(2, 9).output(2, 9).bytes())


def test_select_by_rows_and_broadcast() -> None:
    same_as_litert(File("SELECT").input(9, **FLAGS).input(9, 4).input(9, 4).output(9, 4).bytes())
    same_as_litert(File("SELECT_V2").input(9, 1, **FLAGS).input(4).input(1, 1).output(9, 4).bytes())


@pytest.mark.parametrize("k", [1, 4, 9])
def test_topk(k: int) -> None:
    file = File("TOPK_V2").input(30, 9).constant(np.array(k)).output(30, k).output(30, k, **WORDS)
    assert len(same_as_litert(file.bytes()).ops) == 2


@pytest.mark.parametrize(("source", "to"), [(FLAGS, WORDS), (WORDS, FLAGS)])
def test_cast(source: dict[str, Any], to: dict[str, Any]) -> None:
    options = tflite.CastOptions(in_data_type=source["type"], out_data_type=to["type"])
    same_as_litert(File("CAST", options).input(2, 9, **source).output(2, 9, **to).bytes(), below=3)


@pytest.mark.parametrize("kind", [ElementType.INT8, ElementType.INT16, ElementType.UINT8])
def test_casts_keep_the_lowest_bits(kind: ElementType) -> None:
    options = tflite.CastOptions(in_data_type=WORDS["type"], out_data_type=kind)
    file = File("CAST", options).input(2, 9, **WORDS)
    same_as_litert(file.output(2, 9, type=kind, quantization=None).bytes())


@pytest.mark.parametrize("scale", [0.003, 0.1, 0.7, 3.0])
@pytest.mark.parametrize("count", [2, 10, 331, 4000])
def test_log_softmax(count: int, scale: float) -> None:
    file = File("LOG_SOFTMAX").input(5, count, scale=scale).output(5, count, scale=1 / 16, zero=127)
    same_as_litert(file.bytes())


def test_tile() -> None:
    same_as_litert(File("TILE").input(2, 3, 5).constant([2, 1, 3]).output(4, 3, 15).bytes())
    same_as_litert(File("TILE").input(2, 3).constant([1, 1]).output(2, 3).bytes())


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot(axis: int) -> None:
    """Numbers that there is no place for have none that is hot."""
    shape = [3, 4]
    shape.insert(axis % 3, 6)
    file = File("ONE_HOT", tflite.OneHotOptions(axis=axis)).input(3, 4, **WORDS).constant(np.array(6))
    for level in (100, -7):
        file.constant(np.array(level), ElementType.INT8, quantization=QUANT)
    same_as_litert(file.output(*shape).bytes(), below=9)


def test_fill_is_a_constant() -> None:
    file = File("FILL").constant([2, 3]).constant(np.array(5), ElementType.INT8, quantization=QUANT)
    graph = read(file.output(2, 3).bytes())
    assert graph.outputs[0].constant.tolist() == [[5] * 3] * 2
    assert not graph.ops


LIES: dict[str, File] = {
    "a k too large": File("TOPK_V2").input(3, 9).constant(np.array(10)).output(3, 10).output(3, 10, **WORDS),
    "two axes": File("ARG_MAX", tflite.ArgMaxOptions()).input(3, 9).constant([0, 1]).output(3, **WORDS),
    "batch behind the axis": File("GATHER", tflite.GatherOptions(axis=0, batch_dims=1))
    .input(3, 4)
    .input(3, 2, **WORDS)
    .output(3, 2, 4),
    "counts of nothing": File("TILE").input(2, 3).constant([0, 1]).output(0, 3),
    "far too many": File("TILE").input(2, 3).constant([2**30, 2**30]).output(2, 3),
    "a huge fill": File("FILL").constant([2**30, 7]).constant(np.array(5)).output(2**30, 7, **WORDS),
    "another depth": File("ONE_HOT", tflite.OneHotOptions(axis=-1))
    .input(3, **WORDS)
    .constant(np.array(2**30))
    .constant(np.array(1), ElementType.INT8, quantization=QUANT)
    .constant(np.array(0), ElementType.INT8, quantization=QUANT)
    .output(3, 5),
    "floats": File("LESS").input(3, type=ElementType.FLOAT32, quantization=None).input(3).output(3, **FLAGS),
    "a condition of int8": File("SELECT_V2").input(3).input(3).input(3).output(3),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_refused(lie: str) -> None:
    with pytest.raises(PillionError):
        read(LIES[lie].bytes())
