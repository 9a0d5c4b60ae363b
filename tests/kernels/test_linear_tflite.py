# SPDX-License-Identifier: Apache-2.0
"""LiteRT's fully connected layers by the kernels of vectors: their sums are rounded once, as by a product of doubles."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from dsp_ops import linear

from kernels.op_cases import Run, check, check_runs, kernel_of
from kernels.rig import M4, M33, M55, Target
from nightly import part_of
from pillion.emitters.c import single_rounding
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import PerTensor, Value, constant_value
from pillion.ir.verdict import failed_rules
from pillion.ops.example_values import make_op, value, with_4_bits
from pillion.ops.linear import Linear

pytestmark = pytest.mark.qemu

TFLITE = Arithmetic.TFLITE
boards = pytest.mark.parametrize("board", [M33, M55], ids=lambda board: board.board.core)


def taken(board: Target, ops: list[Linear]) -> list[Linear]:
    found = [op for op in ops if (kernel := kernel_of(board, op, TFLITE)) and "tflite" in kernel.name]
    assert len(found) > 0.9 * len(ops)
    return found


@boards
def test_every_size(board: Target) -> None:
    sizes = list(product((*range(1, 18), 31, 64), (1, 2, 3, 4, 7, 16, 17, 33, 65, 128)))
    ops = [linear(1 + i % 3 // 2, k, n, seed=i) for i, (n, k) in part_of(enumerate(sizes), 3)]
    check(board, taken(board, ops), arithmetic=TFLITE)


@boards
def test_weights_of_4_bits(board: Target) -> None:
    sizes = [*product((1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 64), (1, 3, 8, 9, 17, 36)), (10, 1023), (7, 1300)]
    ops = with_4_bits(linear(1 + i % 3 // 2, k, n, seed=i) for i, (n, k) in enumerate(sizes))
    name = {M33: "linear_tflite_4_dsp", M55: "linear_tflite_4_mve"}[board]
    found = [op for op in ops if getattr(kernel_of(board, op, TFLITE), "name", "") == name]
    assert len(found) > 0.7 * len(sizes)  # Helium takes no -8
    check(board, found, arithmetic=TFLITE)


@pytest.mark.nightly
def test_another_core() -> None:
    ops = [linear(2, k, n, seed=k) for k in (3, 40) for n in (1, 5, 12)]
    check(M4, taken(M4, ops), arithmetic=TFLITE)


@boards
def test_long_sums(board: Target) -> None:
    """On the DSP extension they are set aside in parts."""
    ops = [linear(1, k, n, seed=k) for k in (1023, 1300, 4097) for n in (1, 4, 7, 10)]
    check(board, taken(board, ops), arithmetic=TFLITE)


def tying(power: int, zero_point: int) -> Linear:
    """Of sums that lie between two results: a weight of one, a bias of nothing, scales that are powers of two."""
    x, y = value("x", (256, 1), 2.0**-power, 0), value("y", (), 1.0, zero_point)
    weights = constant_value("w", np.ones((2, 1), np.int8), PerTensor(1.0))
    bias = constant_value("b", np.array([0, 1 << (power - 1)], np.int32))
    return make_op(Linear, y, x=x, weights=weights, bias=bias)


@boards
def test_ties_go_away_from_zero(board: Target) -> None:
    every = np.arange(-128, 128, dtype=np.int8).reshape(256, 1)
    ops = [tying(power, zero_point) for power in (2, 3, 5, 7) for zero_point in (-128, -3, 0, 127)]
    check_runs(board, [Run(op, (every,)) for op in taken(board, ops)], TFLITE)


def test_scales_above_one_have_no_single_rounding() -> None:
    """A scale above one has no right shift."""
    op = linear(1, 8, 4, seed=1)
    coarse = replace(op, y=Value("y", replace(op.y.type, quant=PerTensor(1e-6, 0))))
    assert [v.rule for v in failed_rules(single_rounding.EXACT(coarse, TFLITE))] == ["scale"]
    assert [v.rule for v in failed_rules(single_rounding.EXACT(op, Arithmetic.CMSIS_NN))] == ["arithmetic"]


def test_single_rounding_constants_hold_for_all_sums() -> None:
    """By trying each sum that can be."""
    for seed in range(20):
        op = linear(1, 3, 5, seed=seed)
        numbers = single_rounding.single_rounding_constants(op)
        if numbers is None:
            continue
        sums = np.arange(-(2**16), 2**16, dtype=np.int64)
        for (multiplier, low, high, right), ratio in zip(numbers.astype(np.int64), op.ratios, strict=True):
            offset = (high << 32) + (low & 0xFFFFFFFF)
            made = (sums * multiplier + offset + (sums >> 63)) >> (32 + right)
            wanted = np.trunc(sums * ratio + np.copysign(0.5, sums)) + op.y.zero_point
            assert np.array_equal(np.clip(made, -128, 127), np.clip(wanted, -128, 127))
