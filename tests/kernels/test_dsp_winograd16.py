# SPDX-License-Identifier: Apache-2.0
"""Winograd's convolution of 16-bit operands that are never negative against the reference, byte for byte, on emulated boards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from layers16_ops import conv2d

from kernels import rig
from kernels.op_cases import CMSIS_NN, case_of, reference
from kernels.rig import M4, M7, M33, Target
from kernels.test_dsp_winograd import CLOSE, PADDINGS
from nightly import part_of
from pillion.devices.cortex_m import Isa
from pillion.emitters.c.dsp import winograd16
from pillion.emitters.c.dsp.winograd import MOST_FLASH
from pillion.emitters.c.kernel_choice import choose_kernels
from pillion.emitters.c.lower import lower
from pillion.ir.graph import Graph
from pillion.ir.types import Array, PerTensor, constant_value
from pillion.ir.verdict import all_ok, failed_rules
from pillion.ops.conv import Conv2d

pytestmark = pytest.mark.qemu

KERNEL = next(k for k in M33.kernels if k.name == "conv2d_winograd_16_dsp")


def layers() -> Iterator[Conv2d]:
    """Images from one result on, of odd and even sides; inputs below, at and above a round of the loop; all bounds."""
    for i in range(30):
        padding = PADDINGS[i % len(PADDINGS)]
        h, w = (max(size, 3) for size in (1 + i % 7, 1 + i * 5 % 11))
        shape = (1 + i % 3 // 2, h, w, 4 * (1 + i * 3 % 10))
        yield conv2d(shape, 2 * (1 + i % 6), (3, 3), seed=i, padding=padding, x_nonnegative=True)
    for channels in (12, 16, 20, 36, 68):
        fields = {"padding": (1, 1, 1, 1), "x_nonnegative": True}
        yield conv2d((1, 6, 7, channels), 4, (3, 3), seed=channels, **fields)
    yield conv2d((1, 2, 40, 8), 6, (3, 3), seed=2, padding=(1, 1, 1, 1), x_nonnegative=True)


def images(op: Conv2d, seed: int) -> Iterator[Array]:
    """Random numbers, and the least and the largest ones mixed and alone."""
    rng = np.random.default_rng(seed)
    yield rng.integers(0, 2**15, op.x.shape).astype(np.int16)
    yield rng.choice(np.array([0, 2**15 - 1], np.int16), op.x.shape)
    yield np.full(op.x.shape, 2**15 - 1, np.int16)


@pytest.mark.parametrize("board", part_of([M33, M4, M7], 3), ids=lambda board: board.board.core)
def test_bytes_are_those_of_the_reference(board: Target) -> None:
    cases, expected = [], []
    for number, op in enumerate(layers()):
        for x in images(op, number):
            cases.append(case_of(op, KERNEL, (x,)))
            expected.append(reference(op, CMSIS_NN, (x,)))
    rig.check(board, cases, expected)


def largest(sign: int) -> Conv2d:
    """All weights are 127 or -127, and twice the sum of a whole window of one channel is the last number of 32 bits."""
    op = conv2d((1, 5, 4, 24), 2, (3, 3), padding=(1, 1, 1, 1), low=-(2**15), x_nonnegative=True)
    weights = constant_value("w", np.full_like(op.weights.constant, sign * 127), op.weights.type.quant)
    bias = (2**30 if sign < 0 else 2**30 - 1) - 32767 * 127 * 9 * 24
    y = op.y.like("y", quant=PerTensor(op.x.scale * max(op.weights.type.quant.scales) * 2.0**15))
    return replace(op, weights=weights, bias=constant_value("b", np.array([sign * bias, 0], np.int32)), y=y)


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_sums_of_all(sign: int) -> None:
    op = largest(sign)
    assert all_ok(KERNEL.check(op, CMSIS_NN))
    data = list(images(op, 0))
    expected = [reference(op, CMSIS_NN, (x,)) for x in data]
    assert len({y[0, 2, 2, 0] for y in expected}) > 1
    rig.check(M33, [case_of(op, KERNEL, (x,)) for x in data], expected)
    beyond = replace(op, bias=constant_value("b", op.bias.constant + np.array([sign, 0], np.int32)))
    assert [v.rule for v in failed_rules(KERNEL.check(beyond, CMSIS_NN))] == ["sums"]
    assert chosen(beyond) == "conv2d_wide_16_dsp"


def graph_of(op: Conv2d) -> Graph:
    return Graph("g", op.activations, (op,), op.results)


def chosen(op: Conv2d, optimize: Any = "speed") -> str:
    return choose_kernels(graph_of(op), Isa.DSP, optimize)[0].kernel.name


def test_operands_that_may_be_negative_have_another_kernel() -> None:
    op = conv2d((1, 16, 16, 16), 16, (3, 3), seed=1, padding=(1, 1, 1, 1))
    assert chosen(replace(op, x_nonnegative=True)) == KERNEL.name
    assert chosen(op) == "conv2d_wide_16_dsp"
    assert [v.rule for v in failed_rules(KERNEL.check(op, CMSIS_NN))] == ["operand"]


def test_small_code_has_no_weights_that_are_larger() -> None:
    op = conv2d((1, 16, 16, 16), 16, (3, 3), seed=1, x_nonnegative=True)
    assert chosen(op, "size") == "conv2d_16_dsp"
    fast, small = (lower(graph_of(op), Isa.DSP, optimize).constant_bytes for optimize in ("speed", "size"))
    assert fast - small == winograd16.weight_growth_bytes(op)


def test_prepared_weights_take_a_bounded_part_of_flash() -> None:
    within, beyond = (conv2d((1, 8, 8, 16), out, (3, 3), x_nonnegative=True) for out in (50, 52))
    assert winograd16.weight_growth_bytes(within) == 244 * 50 <= MOST_FLASH
    assert not failed_rules(KERNEL.check(within, CMSIS_NN))
    assert [v.rule for v in failed_rules(KERNEL.check(beyond, CMSIS_NN))] == ["further flash"]


def test_estimates_are_close_and_instructions_few() -> None:
    """The direct kernel has 72 products of words for a result of 16 channels, this one 48."""
    fields = {"padding": (1, 1, 1, 1), "x_nonnegative": True}
    sizes = ((1, 8, 8, 16, 16), (1, 32, 32, 16, 16), (2, 9, 5, 8, 6), (1, 1, 30, 4, 2), (1, 7, 7, 24, 20))
    ops = [conv2d(size[:4], size[4], (3, 3), seed=1, **fields) for size in sizes]
    runs = rig.run(M33, [case_of(op, KERNEL, (next(images(op, 0)),)) for op in ops])
    for op, run in zip(ops, runs, strict=True):
        assert abs(winograd16.instructions(op) / run.instructions - 1) < CLOSE, op.x.shape
    assert runs[1].instructions < 82 * ops[1].y.type.elements
