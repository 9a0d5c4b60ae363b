# SPDX-License-Identifier: Apache-2.0
"""Files that declare other types than LiteRT computes: refused. Sizes that a file leaves open are computed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from damage import contradicted
from tflite_file import File, differs_from_litert, per_channel, same_as_litert, weights

from nightly import part_of
from pillion.errors import PillionError
from pillion.importers.tflite import open_file, read
from pillion.importers.tflite_float import float_module
from pillion.importers.tflite_float.float_module import ROWS as FLOAT_ROWS
from pillion.schemas import tflite
from pillion.schemas.flatbuffer import Table
from pillion.schemas.tflite import ElementType


def moved(code: str, shape: tuple[int, ...], options: Table | None = None, *constants: Any) -> File:
    file = File(code, options).input(*shape)
    for numbers in constants:
        file.constant(numbers)
    return file


def split(shape: tuple[int, ...], axis: int, parts: int) -> File:
    file = File("SPLIT", tflite.SplitOptions(num_splits=parts))
    return file.constant([axis]).input(*shape)


def whole_numbers(code: str, shape: tuple[int, ...], operands: int = 1, options: Table | None = None) -> File:
    file = File(code, options)
    for _ in range(operands):
        file.input(*shape, type=ElementType.INT32, quantization=None)
    return file


def stack() -> File:
    return File("PACK", tflite.PackOptions(values_count=2, axis=1)).input(2, 3).input(2, 3)


def connected() -> File:
    file = File("FULLY_CONNECTED").input(2, 3, 4)
    return file.constant(weights(5, 4), ElementType.INT8, quantization=per_channel(5, 0))


INT32 = {"type": ElementType.INT32, "quantization": None}
BLOCKS = {"SPACE_TO_DEPTH": tflite.SpaceToDepthOptions, "DEPTH_TO_SPACE": tflite.DepthToSpaceOptions}
Case = tuple[Callable[[], File], tuple[int, ...], dict[str, Any]]
CASES: dict[str, Case] = {
    "RESHAPE by an operand": (lambda: moved("RESHAPE", (2, 6), None, [3, -1]), (3, 4), {}),
    "RESHAPE by an option": (
        lambda: moved("RESHAPE", (2, 6), tflite.ReshapeOptions(new_shape=[-1, 6])),
        (2, 6),
        {},
    ),
    "SQUEEZE": (
        lambda: moved("SQUEEZE", (1, 2, 1, 6), tflite.SqueezeOptions(squeeze_dims=[-2])),
        (1, 2, 6),
        {},
    ),
    "SQUEEZE of all": (lambda: moved("SQUEEZE", (1, 2, 1, 6)), (2, 6), {}),
    "EXPAND_DIMS": (lambda: moved("EXPAND_DIMS", (2, 6), None, [1]), (2, 1, 6), {}),
    "SLICE": (lambda: moved("SLICE", (4, 6), None, [1, 0], [2, -1]), (2, 6), {}),
    "STRIDED_SLICE": (
        lambda: moved(
            "STRIDED_SLICE",
            (4, 6, 2),
            tflite.StridedSliceOptions(shrink_axis_mask=1, new_axis_mask=2, end_mask=4),
            [1, 0, 0],
            [2, 0, 0],
            [1, 1, 2],
        ),
        (1, 3, 2),
        {},
    ),
    "SPACE_TO_DEPTH": (
        lambda: moved("SPACE_TO_DEPTH", (1, 4, 6, 2), BLOCKS["SPACE_TO_DEPTH"](block_size=2)),
        (1, 2, 3, 8),
        {},
    ),
    "blocks of 1": (
        lambda: moved("SPACE_TO_DEPTH", (1, 4, 6, 2), BLOCKS["SPACE_TO_DEPTH"](block_size=1)),
        (1, 4, 6, 2),
        {},
    ),
    "DEPTH_TO_SPACE": (
        lambda: moved("DEPTH_TO_SPACE", (1, 2, 3, 8), BLOCKS["DEPTH_TO_SPACE"](block_size=2)),
        (1, 4, 6, 2),
        {},
    ),
    "SPACE_TO_BATCH_ND": (
        lambda: moved("SPACE_TO_BATCH_ND", (1, 4, 6, 2), None, [2, 3], [[0, 0], [0, 0]]),
        (6, 2, 2, 2),
        {},
    ),
    "BATCH_TO_SPACE_ND": (
        lambda: moved("BATCH_TO_SPACE_ND", (6, 2, 2, 2), None, [2, 3], [[0, 0], [0, 0]]),
        (1, 4, 6, 2),
        {},
    ),
    "MIRROR_PAD of nothing": (
        lambda: moved("MIRROR_PAD", (2, 6), tflite.MirrorPadOptions(), [[0, 0], [0, 0]]),
        (2, 6),
        {},
    ),
    "TILE of nothing": (lambda: moved("TILE", (2, 6), None, [1, 1]), (2, 6), {}),
    "REVERSE_SEQUENCE": (
        lambda: whole_numbers(
            "REVERSE_SEQUENCE", (2, 6), 1, tflite.ReverseSequenceOptions(seq_dim=1)
        ).constant([3, 2]),
        (2, 6),
        INT32,
    ),
    "PACK": (stack, (2, 2, 3), {}),
    "FULLY_CONNECTED": (connected, (6, 5), {}),
    "CUMSUM": (
        lambda: whole_numbers("CUMSUM", (2, 6), 1, tflite.CumsumOptions()).constant([1]),
        (2, 6),
        INT32,
    ),
    "ADD_N": (lambda: whole_numbers("ADD_N", (2, 6), 3), (2, 6), INT32),
    "BITWISE_XOR": (lambda: whole_numbers("BITWISE_XOR", (2, 6), 2), (2, 6), INT32),
    "ABS": (lambda: whole_numbers("ABS", (2, 6)), (2, 6), INT32),
    "SPLIT": (lambda: split((1, 8, 6), 1, 1), (1, 8, 6), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_declared_shape_is_the_computed_one(name: str) -> None:
    make, shape, fields = CASES[name]
    same_as_litert(make().output(*shape, **fields).bytes())
    others = {
        shape[::-1],
        (math.prod(shape),),
        (*shape, 1),
        (1, *shape),
        shape[:-1],
        (shape[0] + 1, *shape[1:]),
    }
    for other in others - {shape}:
        with pytest.raises(PillionError):
            read(make().output(*other, **fields).bytes())
    open_ = make().output(*(1 for _ in shape), shape_signature=[-1] * len(shape), **fields)
    assert same_as_litert(open_.bytes()).outputs[0].shape == shape


@pytest.mark.parametrize("name", [n for n, (make, _, _) in CASES.items() if make().code in FLOAT_ROWS])
def test_so_it_is_in_float(name: str) -> None:
    make, shape, _ = CASES[name]

    def module(*declared: int) -> object:
        file = make().output(*declared)
        for tensor in file.tensors:
            if tensor.quantization is not None and not tensor.buffer:
                tensor.type, tensor.quantization = ElementType.FLOAT32, None
        return float_module(open_file(file.bytes()))

    assert module(*shape)
    for other in {shape[::-1], (*shape, 1), (math.prod(shape),)} - {shape}:
        with pytest.raises(PillionError):
            module(*other)


def test_split_results_of_another_shape_are_refused() -> None:
    with pytest.raises(PillionError, match=r"the result has the shape \[1, 32768, 6\]"):
        read(split((1, 65536, 6), 1, 2).output(1, 4, 2).output(1, 4, 2).bytes())


def with_bias(code: str, scale: float, zero_point: int = 0, **fields: Any) -> bytes:
    is_linear = code == "FULLY_CONNECTED"
    file = File(code, None if is_linear else tflite.Conv2DOptions(stride_h=1, stride_w=1))
    file.input(*((2, 4) if is_linear else (1, 1, 2, 4)))
    file.constant(
        weights(*((5, 4) if is_linear else (5, 1, 1, 4))),
        ElementType.INT8,
        quantization=tflite.Quantization(scale=[0.5], zero_point=[0]),
    )
    file.constant(np.arange(5), quantization=tflite.Quantization(scale=[scale], zero_point=[zero_point]))
    return file.output(*((2, 5) if is_linear else (1, 1, 2, 5)), scale=1.0).bytes()


@pytest.mark.parametrize("code", ["CONV_2D", "FULLY_CONNECTED"])
def test_the_scale_of_a_bias_is_that_of_the_sums(code: str) -> None:
    same_as_litert(with_bias(code, 0.05))
    same_as_litert(with_bias(code, 0.05 + 0.015))
    wrong = [float("inf"), float("nan"), -0.05, *([0.05 + 0.03, 0.0] if code == "FULLY_CONNECTED" else [])]
    for scale in wrong:
        with pytest.raises(PillionError, match="scale"):
            read(with_bias(code, scale))
    with pytest.raises(PillionError, match="zero point is 0"):
        read(with_bias(code, 0.05, 3))


@pytest.mark.parametrize(("code", "largest"), [("ADD", 5e4), ("SUB", 5e4), ("SQUARED_DIFFERENCE", 15.0)])
def test_multipliers_of_sums_are_below_one(code: str, largest: float) -> None:
    same_as_litert(File(code).input(64, scale=largest).input(64).output(64).bytes())
    with pytest.raises(PillionError, match="multiplier is below 1"):
        read(File(code).input(64, scale=2 * largest).input(64).output(64).bytes())


def test_whole_numbers_have_no_activation() -> None:
    options = tflite.MulOptions(fused_activation=2)
    with pytest.raises(PillionError, match="no activation"):
        read(whole_numbers("MUL", (3, 7), 2, options).output(3, 7, **INT32).bytes())


def test_a_convolution_makes_an_image() -> None:
    file = File("CONV_2D", tflite.Conv2DOptions(stride_h=1, stride_w=1)).input(1, 3, 3, 2)
    file.constant(weights(5, 1, 1, 2), ElementType.INT8, quantization=per_channel(5, 0))
    with pytest.raises(PillionError, match="has 4 axes"):
        read(file.output(3, 3, 5).bytes())


@pytest.mark.parametrize("part", part_of(range(2), 2))
def test_contradictory_files_are_refused_or_equal_litert(part: int) -> None:
    """The seeds are fixed."""
    rng, kept = random.Random(part), 0
    for number in range(150):
        make, shape, fields = CASES[rng.choice([*CASES])]
        raw = contradicted(rng, make().output(*shape, **fields).bytes())
        try:
            graph = read(raw)
        except PillionError:
            continue
        kept += 1
        assert not differs_from_litert(graph, raw), f"{number} of part {part}"
    assert kept > 10
