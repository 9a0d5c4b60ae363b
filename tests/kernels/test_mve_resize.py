# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of bilinear resizing against the reference, byte for byte, on the emulated Cortex-M55."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from mve_ops import Run, check, kernel_of, refusals, with_random_data

from kernels.op_cases import random_operands
from pillion.emitters.c.families.resize import source_column_runs
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ops.example_values import make_op, value
from pillion.ops.resize import Resize, ResizeBilinear, ResizeBilinearFloat

MODES = {"first_pixels": {}, "align_corners": {"align_corners": True}, "half_pixel": {"half_pixel": True}}


def resize(shape: tuple[int, ...], size: tuple[int, int], zp: int, mode: str) -> ResizeBilinearFloat:
    op = resize_as(ResizeBilinearFloat, shape, size, zp, mode)
    assert isinstance(op, ResizeBilinearFloat)
    return op


def resize_as(kind: type[Resize], shape: tuple[int, ...], size: tuple[int, int], zp: int, mode: str) -> Op:
    op = make_op(kind, value("y", (), 0.1, zp), x=value("x", shape, 0.1, zp), size=size, **MODES[mode])
    op.check()
    return op


KINDS = pytest.mark.parametrize("kind", [ResizeBilinear, ResizeBilinearFloat])


@pytest.mark.qemu
@KINDS
@pytest.mark.parametrize("mode", MODES)
def test_every_number_of_channels(kind: type[Resize], mode: str) -> None:
    sizes = [((3, 5), (17, 33)), ((7, 6), (3, 2)), ((1, 3), (5, 1)), ((5, 1), (4, 9)), ((4, 11), (9, 13))]
    ops = [
        resize_as(kind, (1 + c % 2, *sizes[c % 5][0], c), sizes[c % 5][1], (-128, 0, 127)[c % 3], mode)
        for c in (*range(2, 19), 21, 33, 64, 65)
    ]
    check((with_random_data(op, i) for i, op in enumerate(ops)), Arithmetic.TFLITE)


@pytest.mark.qemu
@KINDS
@pytest.mark.parametrize("mode", MODES)
def test_random_sizes_and_the_ends_of_int8(kind: type[Resize], mode: str) -> None:
    rng = np.random.default_rng(17)
    least = 1 if kind is ResizeBilinear else 2

    def made() -> Iterator[Run]:
        for number in range(40):
            in_h, in_w, out_h, out_w = (int(n) for n in rng.integers(1, 24, 4))
            op = resize_as(kind, (1, in_h, in_w, int(rng.integers(least, 10))), (out_h, out_w), 3, mode)
            yield Run(op, random_operands(op, rng, extreme=number % 2 == 0))

    check(made(), Arithmetic.TFLITE)


@pytest.mark.qemu
@KINDS
@pytest.mark.parametrize("channels", [2, 8])
@pytest.mark.parametrize(("mode", "times"), [("first_pixels", 2), ("half_pixel", 2), ("half_pixel", 4)])
def test_all_pairs_side_by_side_and_their_ties(
    kind: type[Resize], channels: int, mode: str, times: int
) -> None:
    """Halves and quarters between two levels lie between two numbers, or at one half."""
    levels = np.arange(-128, 128, dtype=np.int8)
    x = np.stack([np.repeat(levels, 256), np.tile(levels, 256)]).reshape(1, 2, -1, channels)
    side = x.shape[2]
    check([Run(resize_as(kind, x.shape, (2 * times, side), 0, mode), (x,))], Arithmetic.TFLITE)
    beside = np.ascontiguousarray(x.transpose(0, 2, 1, 3))
    check([Run(resize_as(kind, beside.shape, (side, 2 * times), 0, mode), (beside,))], Arithmetic.TFLITE)


@pytest.mark.qemu
def test_a_larger_image_than_16_bits_count() -> None:
    check([with_random_data(resize((1, 19, 17, 21), (67, 129), 5, "align_corners"))], Arithmetic.TFLITE)


def test_one_channel_is_left_to_portable_c() -> None:
    assert refusals(resize((1, 5, 7, 1), (10, 14), 0, "half_pixel"), Arithmetic.TFLITE) == ["channels"]
    assert kernel_of(resize((1, 5, 7, 2), (10, 14), 0, "half_pixel"), Arithmetic.TFLITE) is not None


@pytest.mark.parametrize("mode", MODES)
def test_runs_are_the_pixels_between_the_same_columns(mode: str) -> None:
    rng = np.random.default_rng(5)
    for before, after in rng.integers(1, 70, (300, 2)):
        columns, right = resize((1, 1, int(before), 4), (1, int(after)), 0, mode).places(1)
        made = source_column_runs(columns, right)
        first, second = np.repeat(made[:, :2], made[:, 2], axis=0).T
        assert made[:, 2].min() > 0
        assert made[:, 2].sum() == after
        assert np.array_equal(first, columns[:, 0])
        assert np.array_equal(second[right != 0], columns[right != 0, 1])
        assert np.isin(second, range(before)).all()
        assert np.any(np.diff(made[:, :2], axis=0), axis=1).all()


def test_corners_that_are_aligned_make_no_runs_of_one_pixel() -> None:
    """17 pixels become 129: every eighth lies on a pixel of the image, and belongs to those behind it."""
    made = source_column_runs(*resize((1, 1, 17, 4), (1, 129), 0, "align_corners").places(1))
    assert [tuple(run) for run in made[[0, 1, -1]]] == [(0, 1, 8), (1, 2, 8), (16, 16, 1)]
    assert len(made) == 17
