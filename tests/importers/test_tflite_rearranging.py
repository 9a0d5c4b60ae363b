# SPDX-License-Identifier: Apache-2.0
"""Operators that put blocks, borders and slices into other places: LiteRT answers what the graph answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tflite_file import File, same_as_litert

from pillion.errors import PillionError
from pillion.importers.tflite import read
from pillion.importers.tflite.listing import LIMITS, list_operators
from pillion.importers.tflite.refusal_reasons import REASONS
from pillion.importers.tflite.table import ROWS
from pillion.importers.tflite.variables import CODES
from pillion.schemas import tflite
from pillion.schemas.tflite import ElementType

WORDS: dict[str, Any] = {"type": ElementType.INT32, "quantization": None}


def test_blocks_and_channels() -> None:
    for block in (1, 2, 3):
        options = tflite.SpaceToDepthOptions(block_size=block)
        file = File("SPACE_TO_DEPTH", options).input(2, 6, 12, 5)
        same_as_litert(file.output(2, 6 // block, 12 // block, 5 * block**2).bytes())
        back = File("DEPTH_TO_SPACE", tflite.DepthToSpaceOptions(block_size=block)).input(2, 3, 5, 36)
        same_as_litert(back.output(2, 3 * block, 5 * block, 36 // block**2).bytes())


@pytest.mark.parametrize("borders", [(0, 0, 0, 0), (1, 2, 0, 3)])
def test_space_and_batch(borders: tuple[int, ...]) -> None:
    top, bottom, left, right = borders
    pairs = [[top, bottom], [left, right]]
    shape = (2, 9 - top - bottom, 6 - left - right, 5)
    file = File("SPACE_TO_BATCH_ND").input(*shape).constant([3, 2]).constant(pairs)
    same_as_litert(file.output(12, 3, 3, 5).bytes())
    back = File("BATCH_TO_SPACE_ND").input(12, 3, 3, 5).constant([3, 2]).constant(pairs)
    same_as_litert(back.output(*shape).bytes())


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("pairs", [[0, 0, 1, 2, 2, 0, 0, 0], [1 - 1, 0, 0, 3, 3, 2, 1, 4], [0] * 8])
def test_mirrored_borders(mode: int, pairs: list[int]) -> None:
    shape = (2, 4, 5, 7)
    made = tuple(d + b + a for d, b, a in zip(shape, pairs[::2], pairs[1::2], strict=True))
    file = File("MIRROR_PAD", tflite.MirrorPadOptions(mode=mode)).input(*shape)
    same_as_litert(file.constant(np.array(pairs).reshape(4, 2)).output(*made).bytes())


def test_gather_by_several_numbers() -> None:
    numbers = [[[1, 2], [0, 0]], [[2, 3], [1, 1]], [[0, 3], [2, 2]]]
    same_as_litert(File("GATHER_ND").input(3, 4, 5).constant(numbers).output(3, 2, 5).bytes())
    same_as_litert(File("GATHER_ND").input(3, 4).constant([[1, 2], [0, 3]]).output(2).bytes())
    same_as_litert(File("GATHER_ND").input(6, 5).input(4, 1, **WORDS).output(4, 5).bytes(), below=6)


@pytest.mark.parametrize(
    ("begin", "end", "step", "masks", "made"),
    [
        ([1], [2], [1], {}, (1, 5, 7)),
        ([0, 2], [0, 5], [1, 2], {"ellipsis_mask": 1}, (4, 5, 2)),
        ([1, 0, 2], [3, 0, 5], [1, 1, 1], {"ellipsis_mask": 2}, (2, 5, 3)),
        ([0, 1, 0], [0, 3, 5], [1, 1, 1], {"new_axis_mask": 1}, (1, 2, 5, 7)),
        (
            [1, 0, 0, 3],
            [2, 0, 0, 4],
            [1, 1, 1, 1],
            {"ellipsis_mask": 2, "new_axis_mask": 4, "shrink_axis_mask": 9},
            (5, 1),
        ),
    ],
)
def test_slices_that_leave_axes_out(
    begin: list[int], end: list[int], step: list[int], masks: dict[str, int], made: tuple[int, ...]
) -> None:
    file = File("STRIDED_SLICE", tflite.StridedSliceOptions(**masks)).input(4, 5, 7)
    same_as_litert(file.constant(begin).constant(end).constant(step).output(*made).bytes())


@pytest.mark.parametrize(
    ("a", "b", "outer"),
    [
        ((3, 5), (4, 5, 2), (4,)),
        ((4, 3, 5), (5, 2), (4,)),
        ((4, 1, 3, 5), (2, 5, 2), (4, 2)),
        ((1, 2, 3, 5), (7, 2, 5, 2), (7, 2)),
    ],
)
def test_products_of_broadcast_matrices(
    a: tuple[int, ...], b: tuple[int, ...], outer: tuple[int, ...]
) -> None:
    file = File("BATCH_MATMUL", tflite.BatchMatMulOptions()).input(*a).input(*b, zero=-7)
    same_as_litert(file.output(*outer, 3, 2, scale=0.7).bytes())


def test_operators_on_known_shapes_are_constants() -> None:
    (y,) = read(File("RANK").input(2, 3, 4).output(**WORDS).bytes()).outputs
    assert y.constant.tolist() == 3
    (y,) = read(File("ZEROS_LIKE").input(2, 3, **WORDS).output(2, 3, **WORDS).bytes()).outputs
    assert y.constant.tolist() == [[0] * 3] * 2


def test_the_list_of_operators_is_complete() -> None:
    listed = {one.name: one for one in list_operators()}
    assert {name for name, one in listed.items() if one.is_read} == {*ROWS, *CODES}
    assert not set(REASONS) & {*ROWS, *CODES}
    assert set(LIMITS) <= {*ROWS, *CODES}
    assert set(REASONS) <= set(listed)


LIES: dict[str, File] = {
    "no block": File("SPACE_TO_DEPTH", tflite.SpaceToDepthOptions()).input(1, 4, 4, 1).output(1, 4, 4, 1),
    "half a block": File("DEPTH_TO_SPACE", tflite.DepthToSpaceOptions(block_size=2))
    .input(1, 2, 2, 6)
    .output(1, 4, 4, 1),
    "borders without blocks": File("SPACE_TO_BATCH_ND")
    .input(1, 4, 4, 1)
    .constant([2])
    .constant([[0, 0]] * 2)
    .output(2, 2, 4, 1),
    "all is cut": File("BATCH_TO_SPACE_ND").input(2, 1, 3).constant([2]).constant([[1, 1]]).output(1, 1, 3),
    "too much to mirror": File("MIRROR_PAD", tflite.MirrorPadOptions()).input(3).constant([[3, 0]]).output(6),
    "numbers beyond": File("GATHER_ND").input(3, 4).constant([[3, 0]]).output(1),
    "computed pairs": File("GATHER_ND").input(3, 4).input(2, 2, **WORDS).output(2),
    "two ellipses": File("STRIDED_SLICE", tflite.StridedSliceOptions(ellipsis_mask=3))
    .input(3, 4)
    .constant([0, 0])
    .constant([0, 0])
    .constant([1, 1])
    .output(3, 4),
    "batches of two sizes": File("BATCH_MATMUL", tflite.BatchMatMulOptions())
    .input(2, 3, 5)
    .input(3, 5, 2)
    .output(6, 3, 2),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_refused(lie: str) -> None:
    with pytest.raises(PillionError) as caught:
        read(LIES[lie].bytes())
    assert caught.value.rule
